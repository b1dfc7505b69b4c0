{{/* The binding of a policy, limited to the namespaces of the release. Takes (root, policy name). */}}
{{- define "magos.policyBinding" -}}
{{- $root := index . 0 -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ index . 1 }}
  labels: {{- include "magos.labels" $root | nindent 4 }}
spec:
  policyName: {{ index . 1 }}
  validationActions: [Deny]
  {{- with include "magos.namespaceSelector" $root | trim }}
  matchResources: {{- . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* The variables by which a policy compares annotations. */}}
{{- define "magos.annotationVariables" -}}
- name: now
  expression: "has(object.metadata.annotations) ? object.metadata.annotations : {}"
- name: before
  expression: "oldObject != null && has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}"
{{- end }}

{{/* The variables by which a policy compares labels. */}}
{{- define "magos.labelVariables" -}}
- name: labels
  expression: "has(object.metadata.labels) ? object.metadata.labels : {}"
- name: labelsBefore
  expression: "oldObject != null && has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}"
{{- end }}
