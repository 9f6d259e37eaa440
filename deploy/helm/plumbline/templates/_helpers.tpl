{{- define "plumbline.selector" -}}
app.kubernetes.io/name: plumbline
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "plumbline.labels" -}}
{{ include "plumbline.selector" . }}
app.kubernetes.io/component: {{ .Values.role }}
app.kubernetes.io/part-of: {{ .Values.networkPolicy.federation }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}
{{- define "plumbline.party" -}}
{{ .Values.name | default .Values.role }}
{{- end -}}
