package tfvars

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func checkout(t *testing.T, files map[string]string) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, isLink := strings.CutPrefix(content, "-> "); isLink {
			err = os.Symlink(target, name)
		} else {
			err = os.WriteFile(name, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root, dir
}

func TestOnlyTheNamedVariablesAreTakenOut(t *testing.T) {
	root, dir := checkout(t, map[string]string{
		"mod/terraform.tfvars":            "# first\na = \"1\" # of a\nb = {\n  a = 2\n}\ntext = <<EOT\na = 3\nEOT\n",
		"mod/x.auto.tfvars":               "c = 1\n",
		"mod/y.auto.tfvars.json":          `{"a": {"deep": [1]}, "z": 12345678901234567890, "": 1}`,
		"mod/terraform.tfvars.json":       `{}`,
		"mod/not.tfvars":                  "a = 1\n",
		"mod/deeper/also-not.auto.tfvars": "a = 1\n",
		"envs/dev.tfvars":                 "a = 5\nd = 6\n",
		"common.tfvars":                   "a = 7\n",
		"mod/link.auto.tfvars":            "-> ../common.tfvars",
	})
	files, err := Files(root, "mod", "envs/dev.tfvars")
	if err != nil {
		t.Fatal(err)
	}
	shadowed, err := Shadow(root, files, []string{"a", "text", "unused"})
	if err != nil {
		t.Fatal(err)
	}
	want := []Shadowed{{"mod/link.auto.tfvars", "a"}, {"mod/terraform.tfvars", "a"}, {"mod/terraform.tfvars", "text"},
		{"mod/y.auto.tfvars.json", "a"}, {"envs/dev.tfvars", "a"}}
	if !slices.Equal(shadowed, want) {
		t.Errorf("shadowed %v, want %v", shadowed, want)
	}
	for name, want := range map[string]string{
		"mod/terraform.tfvars":   "b = {\n  a = 2\n}\n",
		"mod/x.auto.tfvars":      "c = 1\n",
		"mod/y.auto.tfvars.json": "{\n  \"\": 1,\n  \"z\": 12345678901234567890\n}",
		"mod/not.tfvars":         "a = 1\n",
		"envs/dev.tfvars":        "d = 6\n",
		"common.tfvars":          "a = 7\n",
		"mod/link.auto.tfvars":   "",
	} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || strings.TrimPrefix(string(got), "# first\n") != want {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
		}
	}
	if info, err := os.Lstat(filepath.Join(dir, "mod/link.auto.tfvars")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the link is now %v, %v", info, err)
	}
}

func TestWhatAFileDefines(t *testing.T) {
	root, _ := checkout(t, map[string]string{"a.tfvars": "b = 1\na = {\n  c = 2\n}\n", "a.tfvars.json": `{"b": 1, "a": {"c": 2}}`, "x.tfvars": "a =", "x.json": "[]"})
	for _, name := range []string{"a.tfvars", "a.tfvars.json"} {
		if got, err := Defined(root, name); err != nil || !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("%s defines %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"x.tfvars", "x.json", "missing"} {
		if got, err := Defined(root, name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s defines %v, %v", name, got, err)
		}
	}
}

func TestAFileThatCannotBeReadIsRefusedByName(t *testing.T) {
	for name, content := range map[string]string{
		"terraform.tfvars": "a = ", "terraform.tfvars.json": "[", "x.auto.tfvars": "-> /etc/passwd",
	} {
		root, _ := checkout(t, map[string]string{name: content})
		files, err := Files(root, ".", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Shadow(root, files, []string{"a"}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDeclarations(t *testing.T) {
	files := map[string]string{
		"a.tf": "variable \"s\" {\n type = string\n}\nvariable \"n\" {\n type = number\n sensitive = true\n}\nvariable \"untyped\" {}\n" +
			"variable \"l\" {\n type = list(string)\n ephemeral = true\n}\nvariable \"any\" {\n type = any\n sensitive = false\n}\n",
		"b.tf.json":       `{"variable": {"j": {"type": "string", "sensitive": true}, "jl": {"type": "list(string)"}}}`,
		"old.tf":          "variable \"q\" {\n type = \"string\"\n}\nvariable \"ql\" {\n type = \"list\"\n}\n",
		"c.tofu":          "variable \"t\" {\n type = bool\n}\n",
		"c.tf":            "variable \"not_for_tofu\" {}\n",
		"override.tf":     "variable \"s\" {\n default = 1\n sensitive = true\n}\n",
		"a_override.tf":   "variable \"n\" {\n sensitive = false\n type = any\n}\n",
		"broken.tf":       "variable \"x\" {",
		".hidden.tf":      "variable \"h\" {}\n",
		"#editor.tf#":     "variable \"e\" {}\n",
		"backup.tf~":      "variable \"k\" {}\n",
		"folder.tf/x.tf":  "variable \"f\" {}\n",
		"sub/other.tf":    "variable \"o\" {}\n",
		"main.tftest.hcl": "variable \"test\" {}\n",
	}
	both := Declared{
		"s": {Sensitive: true}, "n": {Expression: true}, "untyped": {}, "l": {Expression: true, Ephemeral: true}, "any": {Expression: true},
		"j": {Sensitive: true}, "jl": {Expression: true}, "q": {}, "ql": {Expression: true},
	}
	for engine, own := range map[string]Declared{"OpenTofu": {"t": {}}, "Terraform": {"not_for_tofu": {}}} {
		t.Run(engine, func(t *testing.T) {
			root, _ := checkout(t, files)
			got, err := Declarations(root, ".", engine)
			if err != nil {
				t.Fatal(err)
			}
			delete(got, "x")
			want := maps.Clone(both)
			maps.Copy(want, own)
			if !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestLargeValuesAreTypedAsDeclared(t *testing.T) {
	expression := Declaration{Expression: true}
	for name, c := range map[string]struct {
		declaration Declaration
		value, want string
	}{
		"a string":                          {Declaration{}, "[\"1\"] ${x} <\u00fc>\n", `"[\"1\"] ${x} \u003cü\u003e\n"`},
		"a number":                          {Declaration{}, "007", `"007"`},
		"a list in JSON":                    {expression, `["a", 1, null, {"b": "ü"}]`, `["a", 1, null, {"b": "ü"}]`},
		"a list in HCL":                     {expression, "[\n  \"a\", 12345678901234567890,\n]", `["a",12345678901234567890]`},
		"an object in HCL":                  {expression, `{ a = "$${b}", "c" : true }`, `{"a":"${b}","c":true}`},
		"an object in JSON with a template": {expression, `{"a": "%%{b}"}`, `{"a": "%{b}"}`},
		"an escape of an escape":            {expression, `["$$${a} $$", "\u0024{b}"]`, `["$${a} $$", "\u0024{b}"]`},
		"the same in HCL":                   {expression, `["$$${a} $$", "\u0024{b}",]`, `["$${a} $$","${b}"]`},
		"a constant template":               {expression, `["${"x"}"]`, `["x"]`},
		"null":                              {expression, "null", "null"},
		"a heredoc":                         {expression, "<<EOT\nx\nEOT\n", `"x\n"`},
		"a string among expressions":        {expression, `"a"`, `"a"`},
	} {
		got, err := c.declaration.JSON(c.value)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v; want %s", name, got, err, c.want)
		}
	}
	for name, value := range map[string]string{
		"a reference": `{"a": "${hunter22}"}`, "no expression": `hunter22 hunter22`, "two": `["a"]` + "\nhunter22 = 1", "a function": `file("hunter22")`,
		"half a list": `["hunter22"`, "a name": "hunter22", "no text": "[\"hunter22\xff\"]", "an attribute": `{a = 1}.hunter22`,
	} {
		if got, err := expression.JSON(value); err == nil || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}
