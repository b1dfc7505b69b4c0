package admission

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"magosproject.io/api/crds"
	"magosproject.io/api/v1alpha1"
)

// TestWhatIsAdmittedCanBeDecoded: one object that the API server takes and Go's types cannot hold fails every List and Watch of
// its kind, in the whole cluster. Each field that people write is tried with values at and past the edges of what Go's types hold.
func TestWhatIsAdmittedCanBeDecoded(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	c := newRawClient(t, scheme)
	for _, kind := range []string{"project", "rollout", "variableset", "workspace"} {
		t.Run(kind, func(t *testing.T) {
			create := func(object []byte) ([]byte, error) {
				return c.Post().AbsPath("/apis/magosproject.io/v1alpha1/namespaces/default/"+kind+"s").
					Param("dryRun", "All").SetHeader("Content-Type", "application/json").Body(object).DoRaw(t.Context())
			}
			object := load(t, filepath.Join("full", kind))
			if _, err := create(marshal(t, object.Object)); err != nil {
				t.Fatalf("testdata/full/%s.yaml itself is refused: %v", kind, err)
			}
			for _, f := range fieldsOf(t, kind, object) {
				for _, value := range f.extremes() {
					answer, err := create(f.with(t, object, value))
					if err != nil {
						continue
					}
					if _, _, err := decoder.Decode(answer, nil, nil); err != nil {
						t.Errorf("%s: %s is admitted, and no service can read it: %v", f.path, value, err)
					}
				}
			}
		})
	}
}

// newRawClient sends and receives JSON as it is: any other client would not send what Go cannot hold.
func newRawClient(t *testing.T, scheme *runtime.Scheme) *rest.RESTClient {
	t.Helper()
	raw := rest.CopyConfig(config)
	raw.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c, err := rest.UnversionedRESTClientFor(raw)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// field is one field without fields of its own. Its value is the present one.
type field struct {
	path   string
	schema map[string]any
	place  func(value any)
	value  any
}

func (f field) extremes() []string {
	values := []string{"null", "[]", "{}", "1", `"x"`, "true"}
	number := []string{
		"0", "-1", "2147483647", "2147483648", "-2147483649", "3000000000", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
		"1.0", "1.5", "1e2", "1e9", "1e10", "1e18", "1e19", "1e300",
	}
	text := []string{
		`""`, `"5"`, `"3000000000"`, `"1e400"`, `"100%"`, `"3000000000%"`, `"1h"`, `"2562048h"`, `"99999h"`, `"1.5h"`, `"-1h"`, `"1d"`, `"1e400Gi"`,
		`"2026-01-01T00:00:00Z"`, `"2026-01-01t00:00:00z"`, `"\u0000"`,
	}
	switch {
	case f.schema["x-kubernetes-int-or-string"] == true:
		return slices.Concat(values, number, text)
	case f.schema["type"] == "integer", f.schema["type"] == "number":
		return append(values, number...)
	case f.schema["type"] == "string":
		return append(values, text...)
	}
	return values
}

// with returns the object as JSON with another value, which need not be one that Go can hold, in the place of the field.
func (f field) with(t *testing.T, object *unstructured.Unstructured, value string) []byte {
	t.Helper()
	f.place("the value")
	defer f.place(f.value)
	return []byte(strings.Replace(string(marshal(t, object.Object)), `"the value"`, value, 1))
}

// fieldsOf lists the fields of spec by its schema. The object has to have all of them, so that a new field is tried as well.
func fieldsOf(t *testing.T, kind string, object *unstructured.Unstructured) []field {
	t.Helper()
	data, err := crds.Files.ReadFile("magosproject.io_" + kind + "s.yaml")
	if err != nil {
		t.Fatal(err)
	}
	definition := map[string]any{}
	if err := yaml.Unmarshal(data, &definition); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(definition, "spec", "versions")
	schema, found, _ := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec")
	if !found {
		t.Fatalf("the CustomResourceDefinition of %s has no schema of spec", kind)
	}
	var fields []field
	missing := map[string]bool{}
	walkSchema(schema, object.Object["spec"], "spec", nil, func(f field) {
		if f.value != nil {
			fields = append(fields, f)
			missing[f.path] = false
			return
		}
		if _, known := missing[f.path]; !known {
			missing[f.path] = true
		}
	})
	for path, is := range missing {
		if is {
			t.Errorf("testdata/full/%s.yaml is without %s: write every field of the kind", kind, path)
		}
	}
	return fields
}

// walkSchema calls found for every field without fields of its own: once for each place that the object has for it, with the value nil where it has none.
func walkSchema(schema map[string]any, value any, path string, place func(any), found func(field)) {
	if properties, is := schema["properties"].(map[string]any); is {
		object, _ := value.(map[string]any)
		for name, of := range properties {
			walkSchema(of.(map[string]any), object[name], path+"."+name, func(v any) { object[name] = v }, found)
		}
		return
	}
	if items, is := schema["items"].(map[string]any); is {
		list, _ := value.([]any)
		for i, item := range list {
			walkSchema(items, item, path+"[]", func(v any) { list[i] = v }, found)
		}
		if len(list) == 0 {
			walkSchema(items, nil, path+"[]", nil, found)
		}
		return
	}
	if of, is := schema["additionalProperties"].(map[string]any); is {
		object, _ := value.(map[string]any)
		for name, item := range object {
			walkSchema(of, item, path+"{}", func(v any) { object[name] = v }, found)
		}
		if len(object) == 0 {
			walkSchema(of, nil, path+"{}", nil, found)
		}
		return
	}
	found(field{path: path, schema: schema, place: place, value: value})
}

func marshal(t *testing.T, object any) []byte {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
