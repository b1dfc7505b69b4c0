{{/*
Whether the API server stamps the approver's name: as values.yaml says, and by default where it serves the policies that do.
"true" or nothing.
*/}}
{{- define "magos.stampsApprover" -}}
{{- $served := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}}
{{- $when := .Values.policies.stampApprover -}}
{{- if and .Values.policies.enabled (or (eq $when "Always") (and (eq $when "IfServed") $served)) }}true{{ end -}}
{{- end }}

{{/*
The policy that stamps who approved. It alone says so, whatever a request says: the name changes with an approval, stays with
one that stays, and goes with the last. Only the service, which names the callers of its RPCs, is believed.
Takes a dict: root, resource, service (user name), keys (the annotations that approve).
*/}}
{{- define "magos.approverStamp" -}}
{{- $policy := printf "%s-approver-of-%s" .root.Release.Name .resource -}}
{{- $keys := .keys | toJson | replace "\"" "'" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata:
  name: {{ $policy }}
  labels: {{- include "magos.labels" .root | nindent 4 }}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
      - apiGroups: [magosproject.io]
        apiVersions: ["*"]
        operations: [CREATE, UPDATE]
        resources: [{{ .resource }}]
  matchConditions:
    - name: by-others-than-the-service
      expression: "request.userInfo.username != '{{ .service }}'"
    - name: about-an-approval
      expression: "has(object.metadata.annotations) && ({{ $keys }} + ['magosproject.io/approved-by']).exists(k, k in object.metadata.annotations)"
  variables:
    {{- include "magos.annotationVariables" .root | nindent 4 }}
    - name: approvals
      expression: "{{ $keys }}.filter(k, k in variables.now)"
    - name: approver
      expression: >-
        size(variables.approvals) == 0 ? '' :
        variables.approvals.exists(k, variables.now[?k] != variables.before[?k]) ? request.userInfo.username :
        variables.before[?'magosproject.io/approved-by'].orValue('')
  mutations:
    - patchType: JSONPatch
      jsonPatch:
        expression: >-
          variables.approver != '' ?
          [JSONPatch{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey('magosproject.io/approved-by'), value: variables.approver}] :
          'magosproject.io/approved-by' in variables.now ?
          [JSONPatch{op: 'remove', path: '/metadata/annotations/' + jsonpatch.escapeKey('magosproject.io/approved-by')}] : []
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata:
  name: {{ $policy }}
  labels: {{- include "magos.labels" .root | nindent 4 }}
spec:
  policyName: {{ $policy }}
  {{- with include "magos.namespaceSelector" .root | trim }}
  matchResources: {{- . | nindent 4 }}
  {{- end }}
{{- end }}

{{/*
What a validating policy says of the approver's name: nobody approves under another's, also where nothing stamps it.
Takes the user name of the service. Needs the variables approvalsSet and those of annotations.
*/}}
{{- define "magos.approverVariables" -}}
- name: approverSet
  expression: >-
    'magosproject.io/approved-by' in variables.now &&
    variables.now[?'magosproject.io/approved-by'] != variables.before[?'magosproject.io/approved-by']
{{- end }}
{{- define "magos.approverValidations" -}}
- expression: >-
    request.userInfo.username == '{{ . }}' || !('magosproject.io/approved-by' in variables.now) ||
    !variables.approverSet && size(variables.approvalsSet) == 0 || variables.now['magosproject.io/approved-by'] == request.userInfo.username
  reason: Forbidden
  messageExpression: "'magosproject.io/approved-by names who approves: leave it out, or write your own name, ' + request.userInfo.username"
  message: "magosproject.io/approved-by names who approves: leave it out, or write your own name"
- expression: "request.userInfo.username == '{{ . }}' || !variables.approverSet || size(variables.approvalsSet) > 0"
  reason: Forbidden
  message: "magosproject.io/approved-by changes together with an approval only: leave it as it was"
{{- end }}
