package tfvars

import (
	"strings"
	"testing"
)

func TestOnlyModulesForWhichNothingIsEvaluatedArePlain(t *testing.T) {
	const plain = "module \"m\" {\n  source = \"./m\"\n  for_each = toset([\"a\"])\n  x = file(\"x\")\n}\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"plain":                  {map[string]string{"main.tf": plain, "m/main.tf": "module \"up\" {\n  source = \"../n\"\n}\n", "n/x.tf": ""}, ""},
		"a ring":                 {map[string]string{"main.tf": plain, "m/main.tf": "module \"up\" {\n  source = \"../m\"\n}\n"}, ""},
		"in JSON":                {map[string]string{"main.tf.json": `{"module":{"m":{"source":"./m"}}}`, "m/x.tf": ""}, ""},
		"another module":         {map[string]string{"main.tf": "", "other/main.tf": "module \"m\" {\n  source = file(\"x\")\n}\n"}, ""},
		"a function":             {map[string]string{"main.tf": "module \"m\" {\n  source = \"./${file(\"x\")}\"\n}\n"}, "source is no plain text"},
		"a local":                {map[string]string{"main.tf": "module \"m\" {\n  source = local.x\n}\n"}, "source is no plain text"},
		"a version":              {map[string]string{"main.tf": "module \"m\" {\n  source = \"./m\"\n  version = file(\"x\")\n}\n"}, "version is no plain text"},
		"a template in JSON":     {map[string]string{"main.tf.json": `{"module":{"m":{"source":"./${file(\"x\")}"}}}`}, "source is no plain text"},
		"further in":             {map[string]string{"main.tf": plain, "m/main.tofu": "module \"m\" {\n  source = file(\"x\")\n}\n"}, "m/main.tofu: module m: its source"},
		"an override":            {map[string]string{"main.tf": plain, "m/x.tf": "", "override.tf": "module \"m\" {\n  source = file(\"x\")\n}\n"}, "override.tf"},
		"elsewhere":              {map[string]string{"main.tf": "module \"m\" {\n  source = \"git::https://git.example.com/m\"\n}\n"}, "no folder of the repository"},
		"a provider":             {map[string]string{"main.tf": "provider \"x\" {\n  for_each = toset([file(\"x\")])\n}\n"}, "provider x: its for_each"},
		"what cannot be read":    {map[string]string{"main.tf": "module \"m\" {\n  source = \n"}, "cannot be read"},
		"a folder that is not":   {map[string]string{"main.tf": plain}, "listing the module"},
		"out of the repository":  {map[string]string{"main.tf": "module \"m\" {\n  source = \"../../m\"\n}\n"}, "listing the module"},
		"two modules of a label": {map[string]string{"main.tf": plain + plain, "m/x.tf": ""}, ""},
	} {
		root, _ := checkout(t, c.files)
		err := Plain(root, ".", "OpenTofu")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
