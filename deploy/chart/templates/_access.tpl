{{/*
What a service may do. Takes a dict:
  root     the chart's root
  name     the service
  rules    its rules on namespaced objects, in the namespaces of the release
  cluster  its rules on objects without a namespace, besides asking who a caller is and what that one may do
  own      its rules in the release's own namespace, besides those of leading and of reading the certificate
*/}}
{{- define "magos.access" -}}
{{- $root := .root -}}
{{- $name := .name -}}
{{- $full := printf "magos-%s" .name -}}
{{- $cluster := printf "%s-%s" $root.Release.Name .name -}}
{{- $labels := include "magos.labels" $root -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $cluster }}
  labels: {{- $labels | nindent 4 }}
rules: {{- .rules | trim | nindent 2 }}
---
{{- if $root.Values.namespaces }}
{{- range $namespace := $root.Values.namespaces }}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $cluster }}
  namespace: {{ $namespace }}
  labels: {{- $labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $cluster }}}
subjects:
  - {kind: ServiceAccount, name: {{ $full }}, namespace: {{ $root.Release.Namespace }}}
---
{{- end }}
{{- else }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $cluster }}
  labels: {{- $labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $cluster }}}
subjects:
  - {kind: ServiceAccount, name: {{ $full }}, namespace: {{ $root.Release.Namespace }}}
---
{{- end }}
# What no namespace holds: who calls a service, and whether that one may.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $cluster }}-cluster
  labels: {{- $labels | nindent 4 }}
rules:
  - apiGroups: [authentication.k8s.io]
    resources: [tokenreviews]
    verbs: [create]
  - apiGroups: [authorization.k8s.io]
    resources: [subjectaccessreviews]
    verbs: [create]
  {{- with .cluster }}{{ . | trim | nindent 2 }}{{ end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $cluster }}-cluster
  labels: {{- $labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $cluster }}-cluster}
subjects:
  - {kind: ServiceAccount, name: {{ $full }}, namespace: {{ $root.Release.Namespace }}}
---
# What lies beside the service: the Lease by which one replica leads, and the certificate of all services.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $full }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- $labels | nindent 4 }}
rules:
  # A name cannot limit the right to create: Kubernetes does not know it yet when it decides.
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [{{ $full }}]
    verbs: [get, update, patch]
  - apiGroups: [""]
    resources: [secrets]
    resourceNames: [magos-tls]
    verbs: [get, list, watch]
  {{- with .own }}{{ . | trim | nindent 2 }}{{ end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $full }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- $labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $full }}}
subjects:
  - {kind: ServiceAccount, name: {{ $full }}, namespace: {{ $root.Release.Namespace }}}
{{- end }}
