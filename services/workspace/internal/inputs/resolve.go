package inputs

import (
	"cmp"
	"slices"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/workspace/internal/lifecycle"
)

// Kinds of objects that a variable can come from.
const (
	// KindSecret is a Secret.
	KindSecret = "Secret"
	// KindConfigMap is a ConfigMap.
	KindConfigMap = "ConfigMap"
	// KindVariableSet is a VariableSet; it appears only where one is missing.
	KindVariableSet = "VariableSet"
)

// Reference names a Secret or ConfigMap in the namespace of the Workspace.
type Reference struct {
	// Kind is KindSecret or KindConfigMap.
	Kind string
	// Name of the object.
	Name string
}

// Object is what is known of a referenced object.
type Object struct {
	// ResourceVersion of it; empty while it does not exist or may not be read.
	ResourceVersion string
	// Keys that it has.
	Keys map[string]bool
	// Forbidden is whether Magos may not read it.
	Forbidden bool
}

// Winner is the source that gives a variable its value.
type Winner struct {
	// Variable as its VariableSet has it.
	Variable v1alpha1.Variable
	// Set is the name of that VariableSet.
	Set string
}

// Composition is the variables of one Workspace.
type Composition struct {
	// Winners by name.
	Winners []Winner
	// Sets that exist and contribute, the Project's first.
	Sets []string
	// missing lists the VariableSets that do not exist.
	missing []string
}

// Compose picks the winner of every variable: Workspace sets over Project sets, later ones over earlier ones.
// The winner is the source alone; where an optional one leads nowhere, what it shadows does not come back.
func Compose(project *v1alpha1.Project, w *v1alpha1.Workspace, sets map[string]*v1alpha1.VariableSet) Composition {
	var c Composition
	winners := map[string]Winner{}
	for _, name := range SetNames(project, w) {
		set, exists := sets[name]
		if !exists {
			if !slices.Contains(c.missing, name) {
				c.missing = append(c.missing, name)
			}
			continue
		}
		c.Sets = append(c.Sets, name)
		for _, v := range set.Spec.Variables {
			winners[v.Name] = Winner{Variable: v, Set: name}
		}
	}
	for _, winner := range winners {
		c.Winners = append(c.Winners, winner)
	}
	slices.SortFunc(c.Winners, func(a, b Winner) int { return cmp.Compare(a.Variable.Name, b.Variable.Name) })
	return c
}

// SetNames lists the VariableSets that a Workspace receives, in the order in which later ones win.
func SetNames(project *v1alpha1.Project, w *v1alpha1.Workspace) []string {
	var names []string
	if project != nil {
		for _, ref := range project.Spec.VariableSetRef {
			names = append(names, ref.Name)
		}
	}
	for _, ref := range w.Spec.VariableSetRef {
		names = append(names, ref.Name)
	}
	return names
}

// ReferenceOf returns the reference of v; ok is false for a literal.
func ReferenceOf(v v1alpha1.Variable) (ref Reference, key v1alpha1.KeyReference, ok bool) {
	switch {
	case v.ValueFrom == nil:
		return Reference{}, v1alpha1.KeyReference{}, false
	case v.ValueFrom.SecretKeyRef != nil:
		return Reference{KindSecret, v.ValueFrom.SecretKeyRef.Name}, *v.ValueFrom.SecretKeyRef, true
	case v.ValueFrom.ConfigMapKeyRef != nil:
		return Reference{KindConfigMap, v.ValueFrom.ConfigMapKeyRef.Name}, *v.ValueFrom.ConfigMapKeyRef, true
	}
	return Reference{}, v1alpha1.KeyReference{}, false
}

// References lists what the variables refer to, each once.
func References(variables []v1alpha1.Variable) []Reference {
	var refs []Reference
	for _, v := range variables {
		if ref, _, ok := ReferenceOf(v); ok && !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// Variables returns the winning variables, by name.
func (c Composition) Variables() []v1alpha1.Variable {
	variables := make([]v1alpha1.Variable, 0, len(c.Winners))
	for _, winner := range c.Winners {
		variables = append(variables, winner.Variable)
	}
	return variables
}

// Inputs joins the composition with what is known of the referenced objects.
func (c Composition) Inputs(w *v1alpha1.Workspace, objects map[Reference]Object) lifecycle.Inputs {
	result := lifecycle.Inputs{Fingerprint: lifecycle.SpecFingerprint(w), Sets: c.Sets}
	for _, name := range c.missing {
		result.Unresolved = append(result.Unresolved, lifecycle.Unresolved{Kind: KindVariableSet, Name: name, Reason: v1alpha1.UnresolvedResourceNotFound})
	}
	sources := make([][]string, 0, len(c.Winners)+1)
	sources = append(sources, c.missing)
	for _, winner := range c.Winners {
		v := winner.Variable
		ref, key, isReference := ReferenceOf(v)
		if !isReference {
			value := ""
			if v.Value != nil {
				value = *v.Value
			}
			sources = append(sources, []string{v.Name, "Literal", "", "", value})
			continue
		}
		object := objects[ref]
		sources = append(sources, []string{v.Name, ref.Kind, ref.Name, key.Key, object.ResourceVersion})
		if reason := missing(object, key); reason != "" {
			result.Unresolved = append(result.Unresolved, lifecycle.Unresolved{
				Variable: v.Name, Kind: ref.Kind, Name: ref.Name, Key: key.Key, Reason: reason,
			})
		}
	}
	result.Fingerprint.Variables = lifecycle.Digest(sources)
	return result
}

// missing says why key of object gives no value; empty where it does, or where it need not.
func missing(object Object, key v1alpha1.KeyReference) string {
	switch {
	case object.Forbidden:
		return v1alpha1.UnresolvedForbidden // also where it is optional: nobody can say whether it is there
	case key.Optional:
		return ""
	case object.ResourceVersion == "":
		return v1alpha1.UnresolvedResourceNotFound
	case !object.Keys[key.Key]:
		return v1alpha1.UnresolvedKeyNotFound
	}
	return ""
}
