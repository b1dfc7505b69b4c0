package lifecycle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"magosproject.io/api/v1alpha1"
)

// Fingerprint identifies the inputs of a run other than its commit. Its parts tell what kind of change made it differ:
// a spec edit gives up a waiting plan, rotated variables do not.
type Fingerprint struct {
	// Spec is what of the spec changes what a run does.
	Spec string
	// Variables is the ordered list of winning variables with their sources; empty while it cannot be known.
	Variables string
}

// String is the form that status keeps: the parts, joined by a hyphen.
func (f Fingerprint) String() string {
	return f.Spec + "-" + f.Variables
}

// ParseFingerprint reads what String wrote. Anything else gives the zero Fingerprint, which equals no real one.
func ParseFingerprint(text string) Fingerprint {
	spec, variables, ok := strings.Cut(text, "-")
	if !ok {
		return Fingerprint{}
	}
	return Fingerprint{Spec: spec, Variables: variables}
}

// SpecFingerprint returns the fingerprint of the spec of w, without variables. It covers what changes the outcome of a
// run: source, tool, the list of VariableSets and the identity of the run; not approval, timeouts or pod annotations.
func SpecFingerprint(w *v1alpha1.Workspace) Fingerprint {
	type spec struct {
		RepoURL, TargetRevision, Path, Engine, Version, TfvarsPath, ServiceAccount string
		MountToken                                                                 bool
		// Left out where submodules are fetched, so that the fingerprints of releases without this field stay good.
		WithoutSubmodules bool `json:",omitempty"`
		Sets              []string
	}
	sets := make([]string, 0, len(w.Spec.VariableSetRef))
	for _, ref := range w.Spec.VariableSetRef {
		sets = append(sets, ref.Name)
	}
	return Fingerprint{Spec: Digest(spec{
		RepoURL: w.Spec.Source.RepoURL, TargetRevision: w.Spec.Source.TargetRevision, Path: w.Spec.Source.Path,
		Engine: string(w.Spec.Terraform.Engine), Version: w.Spec.Terraform.Version, TfvarsPath: w.Spec.Terraform.TfvarsPath,
		ServiceAccount: w.Spec.ServiceAccountName, MountToken: w.Spec.MountServiceAccountToken, Sets: sets,
		WithoutSubmodules: !ptr.Deref(w.Spec.Source.RecurseSubmodules, true),
	})}
}

// Digest is a short digest of the JSON of v, which holds strings, numbers, booleans and lists of them only.
func Digest(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("digest of %T: %v", v, err)) // only a programming error gets here
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
