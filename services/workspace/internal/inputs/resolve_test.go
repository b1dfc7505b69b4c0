package inputs

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/workspace/internal/lifecycle"
)

func literal(name, value string) v1alpha1.Variable {
	return v1alpha1.Variable{Name: name, Value: &value}
}

func secret(name, object, key string, optional bool) v1alpha1.Variable {
	return v1alpha1.Variable{Name: name, ValueFrom: &v1alpha1.ValueSource{SecretKeyRef: &v1alpha1.KeyReference{Name: object, Key: key, Optional: optional}}}
}

func configMap(name, object, key string) v1alpha1.Variable {
	return v1alpha1.Variable{Name: name, ValueFrom: &v1alpha1.ValueSource{ConfigMapKeyRef: &v1alpha1.KeyReference{Name: object, Key: key}}}
}

func refs(names ...string) []v1alpha1.VariableSetReference {
	var list []v1alpha1.VariableSetReference
	for _, name := range names {
		list = append(list, v1alpha1.VariableSetReference{Name: name})
	}
	return list
}

func sets(of map[string][]v1alpha1.Variable) map[string]*v1alpha1.VariableSet {
	all := map[string]*v1alpha1.VariableSet{}
	for name, variables := range of {
		set := &v1alpha1.VariableSet{}
		set.Name, set.Spec.Variables = name, variables
		all[name] = set
	}
	return all
}

func bound(project, workspace []string) (*v1alpha1.Project, *v1alpha1.Workspace) {
	p, w := &v1alpha1.Project{}, &v1alpha1.Workspace{}
	p.Spec.VariableSetRef, w.Spec.VariableSetRef = refs(project...), refs(workspace...)
	return p, w
}

func TestPrecedence(t *testing.T) {
	available := sets(map[string][]v1alpha1.Variable{
		"one":   {literal("a", "1"), literal("b", "1"), literal("c", "1")},
		"two":   {literal("b", "2"), literal("c", "2")},
		"three": {literal("c", "3"), secret("a", "s", "k", true)},
		"empty": nil,
	})
	for name, c := range map[string]struct {
		project, workspace []string
		want               string
	}{
		"nothing":                               {nil, nil, ""},
		"one set":                               {[]string{"one"}, nil, "a=one b=one c=one"},
		"later Project sets win":                {[]string{"one", "two"}, nil, "a=one b=two c=two"},
		"in the order of the list":              {[]string{"two", "one"}, nil, "a=one b=one c=one"},
		"the Workspace's win over all":          {[]string{"three", "two"}, []string{"one"}, "a=one b=one c=one"},
		"a set on both counts where it is last": {[]string{"one", "two"}, []string{"one"}, "a=one b=one c=one"},
		"an optional reference shadows, too":    {[]string{"one"}, []string{"three"}, "a=three b=one c=three"},
		"an empty set changes nothing":          {[]string{"one"}, []string{"empty"}, "a=one b=one c=one"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			p, w := bound(c.project, c.workspace)
			for _, w := range Compose(p, w, available).Winners {
				got = append(got, w.Variable.Name+"="+w.Set)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%v, want %s", got, c.want)
			}
		})
	}
}

func TestWhatAWinnerShadows(t *testing.T) {
	p, w := bound([]string{"one", "two"}, []string{"one", "own"})
	c := Compose(p, w, sets(map[string][]v1alpha1.Variable{
		"one": {literal("a", "1")}, "two": {secret("a", "s", "k", true), literal("b", "2")}, "own": {configMap("a", "c", "k")},
	}))
	var got []string
	for _, winner := range c.Winners {
		text := winner.Variable.Name + ":"
		for _, source := range append([]Source{winner.Source}, winner.Shadows...) {
			text += fmt.Sprintf(" %s/%v", source.Set, source.OfProject)
		}
		got = append(got, text)
	}
	if want := []string{"a: own/false one/false two/true one/true", "b: two/true"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnresolved(t *testing.T) {
	there := Object{ResourceVersion: "7", Keys: map[string]bool{"k": true, "": false}}
	for name, c := range map[string]struct {
		variable v1alpha1.Variable
		object   Object
		want     string
	}{
		"a literal":                     {literal("a", ""), Object{}, ""},
		"there":                         {secret("a", "s", "k", false), there, ""},
		"no such object":                {secret("a", "s", "k", false), Object{}, v1alpha1.UnresolvedResourceNotFound},
		"no such key":                   {secret("a", "s", "other", false), there, v1alpha1.UnresolvedKeyNotFound},
		"may not be read":               {secret("a", "s", "k", false), Object{Forbidden: true}, v1alpha1.UnresolvedForbidden},
		"optional, no such object":      {secret("a", "s", "k", true), Object{}, ""},
		"optional, no such key":         {secret("a", "s", "other", true), there, ""},
		"optional, but may not be read": {secret("a", "s", "k", true), Object{Forbidden: true}, v1alpha1.UnresolvedForbidden},
		"a ConfigMap that is not there": {configMap("a", "c", "k"), Object{}, v1alpha1.UnresolvedResourceNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			objects := map[Reference]Object{}
			if ref, _, ok := ReferenceOf(c.variable); ok {
				objects[ref] = c.object
			}
			p, w := bound([]string{"set"}, nil)
			in := Compose(p, w, sets(map[string][]v1alpha1.Variable{"set": {c.variable}})).Inputs(w, objects)
			got := ""
			if len(in.Unresolved) > 0 {
				got = in.Unresolved[0].Reason
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			set := &v1alpha1.VariableSet{}
			set.Spec.Variables = []v1alpha1.Variable{c.variable}
			st := SetStatus(set, objects, time.Unix(0, 0))
			if failed := st.Phase == v1alpha1.VariableSetFailed; failed != (c.want != "") || len(st.UnresolvedReferences) > 1 {
				t.Errorf("the set is %s: %+v", st.Phase, st)
			}
		})
	}
	t.Run("a VariableSet that is not there", func(t *testing.T) {
		p, w := bound([]string{"gone", "gone"}, []string{"gone"})
		in := Compose(p, w, nil).Inputs(w, nil)
		want := []lifecycle.Unresolved{{Kind: KindVariableSet, Name: "gone", Reason: v1alpha1.UnresolvedResourceNotFound}}
		if !reflect.DeepEqual(in.Unresolved, want) || !in.Known() {
			t.Errorf("%+v", in)
		}
	})
}

// TestFingerprint: field by field, what changes the fingerprint and which part of it, and what does not.
func TestFingerprint(t *testing.T) {
	type world struct {
		p       *v1alpha1.Project
		w       *v1alpha1.Workspace
		sets    map[string]*v1alpha1.VariableSet
		objects map[Reference]Object
	}
	build := func() *world {
		p, w := bound([]string{"base"}, []string{"own"})
		return &world{p, w, sets(map[string][]v1alpha1.Variable{
			"base": {literal("a", "1"), literal("shadowed", "1")}, "own": {literal("shadowed", "2"), secret("s", "cloud", "k", true)}, "other": {literal("a", "9")},
		}), map[Reference]Object{{KindSecret, "cloud"}: {ResourceVersion: "7", Keys: map[string]bool{"k": true}}}}
	}
	of := func(x *world) lifecycle.Fingerprint {
		return Compose(x.p, x.w, x.sets).Inputs(x.w, x.objects).Fingerprint
	}
	plain := of(build())
	seconds := int64(5)
	for name, c := range map[string]struct {
		change func(*world)
		parts  string
	}{
		"nothing":                          {func(*world) {}, ""},
		"repoURL":                          {func(x *world) { x.w.Spec.Source.RepoURL = "x" }, "spec"},
		"targetRevision":                   {func(x *world) { x.w.Spec.Source.TargetRevision = "x" }, "spec"},
		"path":                             {func(x *world) { x.w.Spec.Source.Path = "x" }, "spec"},
		"version":                          {func(x *world) { x.w.Spec.Terraform.Version = "x" }, "spec"},
		"engine":                           {func(x *world) { x.w.Spec.Terraform.Engine = "x" }, "spec"},
		"tfvarsPath":                       {func(x *world) { x.w.Spec.Terraform.TfvarsPath = "x" }, "spec"},
		"serviceAccountName":               {func(x *world) { x.w.Spec.ServiceAccountName = "x" }, "spec"},
		"mountServiceAccountToken":         {func(x *world) { x.w.Spec.MountServiceAccountToken = true }, "spec"},
		"another set on the Workspace":     {func(x *world) { x.w.Spec.VariableSetRef = refs("own", "other") }, "spec variables"},
		"another set on the Project":       {func(x *world) { x.p.Spec.VariableSetRef = refs("base", "other") }, "variables"},
		"a literal":                        {func(x *world) { x.sets["base"].Spec.Variables[0] = literal("a", "2") }, "variables"},
		"a shadowed literal":               {func(x *world) { x.sets["base"].Spec.Variables[1] = literal("shadowed", "9") }, ""},
		"a version of a Secret":            {func(x *world) { x.objects[Reference{KindSecret, "cloud"}] = Object{ResourceVersion: "8"} }, "variables"},
		"an optional Secret that is lost":  {func(x *world) { x.objects = nil }, "variables"},
		"a literal instead of a reference": {func(x *world) { x.sets["own"].Spec.Variables[1] = literal("s", "7") }, "variables"},
		"autoApply":                        {func(x *world) { on := true; x.w.Spec.AutoApply = &on }, ""},
		"discardStalePlan":                 {func(x *world) { x.w.Spec.DiscardStalePlan = true }, ""},
		"a timeout":                        {func(x *world) { x.w.Spec.Plan.TimeoutSeconds = &seconds }, ""},
		"pod annotations":                  {func(x *world) { x.w.Spec.Annotations = map[string]string{"a": "b"} }, ""},
		"the description of a set":         {func(x *world) { x.sets["base"].Spec.Description = "x" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			x := build()
			c.change(x)
			got := of(x)
			var parts []string
			for _, part := range []struct{ name, was, is string }{
				{"spec", plain.Spec, got.Spec}, {"variables", plain.Variables, got.Variables},
			} {
				if part.was != part.is {
					parts = append(parts, part.name)
				}
			}
			if strings.Join(parts, " ") != c.parts {
				t.Errorf("changes %v, want %q", parts, c.parts)
			}
			if back := lifecycle.ParseFingerprint(got.String()); back != got {
				t.Errorf("read back as %+v, want %+v", back, got)
			}
		})
	}
}

func TestStatusOfASetIsSteadyAndHoldsNoValue(t *testing.T) {
	set := &v1alpha1.VariableSet{}
	set.Generation = 3
	set.Spec.Variables = []v1alpha1.Variable{literal("a", "x"), secret("b", "cloud", "k", false), secret("c", "cloud", "no", false)}
	objects := map[Reference]Object{{KindSecret, "cloud"}: {ResourceVersion: "7", Keys: map[string]bool{"k": true}}}
	set.Status = SetStatus(set, objects, time.Unix(100, 0))
	again := SetStatus(set, objects, time.Unix(5000, 0))
	if !reflect.DeepEqual(set.Status, again) {
		t.Errorf("a second look changes\n%+v to\n%+v", set.Status, again)
	}
	if again.ResolvedVariables != 2 || again.ObservedGeneration != 3 || !strings.Contains(again.Message, "1 of 2") {
		t.Errorf("%s", fmt.Sprintf("%+v", again))
	}
}
