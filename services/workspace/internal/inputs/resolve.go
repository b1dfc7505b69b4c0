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
	// KindLiteral is no object: the value stands in the VariableSet.
	KindLiteral = "Literal"
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

// Source is a VariableSet that gives a variable its value, or would.
type Source struct {
	// Variable as its VariableSet has it.
	Variable v1alpha1.Variable
	// Set is the name of that VariableSet.
	Set string
	// OfProject says that the Project names the set; else the Workspace does.
	OfProject bool
}

// Winner is the source that gives a variable its value.
type Winner struct {
	Source
	// Shadows are the sources that it wins over, the nearest first.
	Shadows []Source
}

// Composition is the variables of one Workspace.
type Composition struct {
	// Winners by name.
	Winners []Winner
	// Sets that exist and contribute, the Project's first.
	Sets []string
	// Missing lists the VariableSets that do not exist.
	Missing []string
}

// Compose picks the winner of every variable: Workspace sets over Project sets, later ones over earlier ones.
// The winner is the source alone; where an optional one leads nowhere, what it shadows does not come back.
func Compose(project *v1alpha1.Project, w *v1alpha1.Workspace, sets map[string]*v1alpha1.VariableSet) Composition {
	var c Composition
	winners := map[string]Winner{}
	for i, name := range SetNames(project, w) {
		set, exists := sets[name]
		if !exists {
			if !slices.Contains(c.Missing, name) {
				c.Missing = append(c.Missing, name)
			}
			continue
		}
		c.Sets = append(c.Sets, name)
		for _, v := range set.Spec.Variables {
			winner := Winner{Source: Source{Variable: v, Set: name, OfProject: project != nil && i < len(project.Spec.VariableSetRef)}}
			if loser, exists := winners[v.Name]; exists {
				winner.Shadows = append([]Source{loser.Source}, loser.Shadows...)
			}
			winners[v.Name] = winner
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
	for _, name := range c.Missing {
		result.Unresolved = append(result.Unresolved, lifecycle.Unresolved{Kind: KindVariableSet, Name: name, Reason: v1alpha1.UnresolvedResourceNotFound})
	}
	sources := make([][]string, 0, len(c.Winners)+1)
	sources = append(sources, c.Missing)
	for _, winner := range c.Winners {
		v := winner.Variable
		ref, key, isReference := ReferenceOf(v)
		if !isReference {
			value := ""
			if v.Value != nil {
				value = *v.Value
			}
			sources = append(sources, []string{v.Name, KindLiteral, "", "", value})
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

// HasValue reports whether the source has a value, as far as the objects are known.
func (s Source) HasValue(objects map[Reference]Object) bool {
	ref, key, isReference := ReferenceOf(s.Variable)
	return !isReference || !objects[ref].Forbidden && objects[ref].Keys[key.Key]
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
