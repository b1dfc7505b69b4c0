{{/* The labels of everything in the release. */}}
{{- define "magos.labels" -}}
app.kubernetes.io/name: magos
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The labels by which a service's pods are found. Takes (root, service). */}}
{{- define "magos.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: magos
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* The user name of a service in requests to Kubernetes. Takes (root, service). */}}
{{- define "magos.username" -}}
system:serviceaccount:{{ (index . 0).Release.Namespace }}:magos-{{ index . 1 }}
{{- end }}

{{/* An image from the release's registry. Takes (root, name). */}}
{{- define "magos.image" -}}
{{- $root := index . 0 -}}
{{- with $root.Values.image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ index . 1 }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}
{{- end }}

{{/* The namespaceSelector that limits a policy to the namespaces of the release; nothing where it serves all. */}}
{{- define "magos.namespaceSelector" -}}
{{- with .Values.namespaces }}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: In
      values: {{ toJson . }}
{{- end }}
{{- end }}
