{{/*
The objects that every service has: its account, the right to be asked and to lead, its Deployment, Service and
disruption budget. Takes a dict:
  root     the chart's root
  name     rollout, workspace, refwatcher or runner
  peers    the services that it calls, each by a token of its own audience
  args     arguments beyond the common ones
  ports    ports beyond the common ones, as [{name, containerPort}]; may be left out
  mounts   Secrets that are mounted, as [{name, secretName, path}]; they may come later than the pod. May be left out
*/}}
{{- define "magos.service" -}}
{{- $root := .root -}}
{{- $name := .name -}}
{{- $full := printf "magos-%s" .name -}}
{{- $values := index $root.Values .name -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $full }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- include "magos.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $name }}
automountServiceAccountToken: false
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $full }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- include "magos.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $name }}
spec:
  replicas: {{ $values.replicas }}
  selector:
    matchLabels: {{- include "magos.selector" (list $root $name) | nindent 6 }}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
  template:
    metadata:
      labels: {{- include "magos.selector" (list $root $name) | nindent 8 }}
      {{- with $values.podAnnotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ $full }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      terminationGracePeriodSeconds: 30
      {{- with $root.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $root.Values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
        - topologyKey: {{ . }}
          maxSkew: 1
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{- include "magos.selector" (list $root $name) | nindent 14 }}
        {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: {{ $name }}
          image: {{ $values.image | default (include "magos.image" (list $root $full)) }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args:
            - --log-level={{ $root.Values.logLevel }}
            {{- with $root.Values.namespaces }}
            - --namespaces={{ join "," . }}
            {{- end }}
            {{- range .args }}
            - {{ . | quote }}
            {{- end }}
            {{- range $values.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          env:
            - name: POD_NAME
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
            - name: POD_NAMESPACE
              valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
            - name: POD_IP
              valueFrom: {fieldRef: {fieldPath: status.podIP}}
          ports:
            - {name: grpc, containerPort: 8443}
            - {name: http, containerPort: 8080}
            {{- range .ports }}
            - {name: {{ .name }}, containerPort: {{ .containerPort }}}
            {{- end }}
          # The first start of a release waits for the certificate that the rollout service makes.
          startupProbe:
            httpGet: {path: /healthz, port: http}
            periodSeconds: 2
            failureThreshold: 60
          livenessProbe:
            httpGet: {path: /healthz, port: http}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 3
          readinessProbe:
            httpGet: {path: /readyz, port: http}
            periodSeconds: 5
            timeoutSeconds: 3
            failureThreshold: 2
          resources: {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          {{- if or .peers .mounts }}
          volumeMounts:
            {{- if .peers }}
            - {name: peer-tokens, mountPath: /var/run/secrets/magos/tokens, readOnly: true}
            {{- end }}
            {{- range .mounts }}
            - {name: {{ .name }}, mountPath: {{ .path }}, readOnly: true}
            {{- end }}
          {{- end }}
      {{- if or .peers .mounts }}
      volumes:
        {{- range .mounts }}
        - name: {{ .name }}
          secret: {secretName: {{ .secretName }}, optional: true}
        {{- end }}
        {{- if .peers }}
        - name: peer-tokens
          projected:
            sources:
              {{- range .peers }}
              - serviceAccountToken:
                  audience: magos-{{ . }}
                  path: {{ . }}
                  expirationSeconds: 3600
              {{- end }}
        {{- end }}
      {{- end }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $full }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- include "magos.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $name }}
spec:
  selector: {{- include "magos.selector" (list $root $name) | nindent 4 }}
  ports:
    - {name: grpc, port: 8443, targetPort: grpc}
    - {name: http, port: 8080, targetPort: http}
{{- if gt (int $values.replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $full }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- include "magos.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $name }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- include "magos.selector" (list $root $name) | nindent 6 }}
{{- end }}
{{- end }}
