package lifecycle

import (
	"slices"

	"magosproject.io/api/v1alpha1"
)

// LogLevel is how much the tool of w's runs logs of its own doings; empty for nothing, which is also what a level that is none means.
func LogLevel(w *v1alpha1.Workspace) string {
	if level := w.Annotations[v1alpha1.AnnotationTFLogLevel]; slices.Contains(v1alpha1.TFLogLevels(), level) {
		return level
	}
	return ""
}
