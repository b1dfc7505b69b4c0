package lifecycle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"magosproject.io/api/v1alpha1"
)

// Fingerprint identifies the inputs of a run other than its commit. Its parts tell what kind of change made it differ:
// a spec edit gives up a waiting plan, rotated variables do not.
type Fingerprint struct {
	// Source is the repository and target revision: the detected commit of another source proves nothing.
	Source string
	// Settings is the rest of the spec that changes what a run does.
	Settings string
	// Variables is the ordered list of winning variables with their sources; empty while it cannot be known.
	Variables string
}

// String is the form that status keeps: the three parts, joined by hyphens.
func (f Fingerprint) String() string {
	return strings.Join([]string{f.Source, f.Settings, f.Variables}, "-")
}

// SameSpec reports whether f and other come from the same spec.
func (f Fingerprint) SameSpec(other Fingerprint) bool {
	return f.Source == other.Source && f.Settings == other.Settings
}

// ParseFingerprint reads what String wrote. Anything else gives the zero Fingerprint, which equals no real one.
func ParseFingerprint(text string) Fingerprint {
	parts := strings.Split(text, "-")
	if len(parts) != 3 {
		return Fingerprint{}
	}
	return Fingerprint{Source: parts[0], Settings: parts[1], Variables: parts[2]}
}

// SpecFingerprint returns the fingerprint of the spec of w, without variables. It covers what changes the outcome of a
// run: source, tool, the list of VariableSets and the identity of the run; not approval, timeouts or pod annotations.
func SpecFingerprint(w *v1alpha1.Workspace) Fingerprint {
	type settings struct {
		Path, Engine, Version, TfvarsPath, ServiceAccount string
		MountToken                                        bool
		Sets                                              []string
	}
	sets := make([]string, 0, len(w.Spec.VariableSetRef))
	for _, ref := range w.Spec.VariableSetRef {
		sets = append(sets, ref.Name)
	}
	return Fingerprint{
		Source: Digest([]string{w.Spec.Source.RepoURL, w.Spec.Source.TargetRevision}),
		Settings: Digest(settings{
			Path: w.Spec.Source.Path, Engine: string(w.Spec.Terraform.Engine), Version: w.Spec.Terraform.Version,
			TfvarsPath: w.Spec.Terraform.TfvarsPath, ServiceAccount: w.Spec.ServiceAccountName,
			MountToken: w.Spec.MountServiceAccountToken, Sets: sets,
		}),
	}
}

// Digest is a short digest of the JSON of v, which holds strings, numbers, booleans and lists of them only.
func Digest(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("digest of %T: %v", v, err)) // only a programming error gets here
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
