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

func TestDeclaredTypes(t *testing.T) {
	root, _ := checkout(t, map[string]string{
		"a.tf":         "variable \"s\" {\n type = string\n}\nvariable \"n\" {\n type = number\n}\nvariable \"any\" {}\nvariable \"l\" {\n type = list(string)\n}\n",
		"b.tf.json":    `{"variable": {"j": {"type": "string"}}}`,
		"c.tofu":       "variable \"t\" {\n type = string\n}\n",
		"override.tf":  "variable \"s\" {\n default = 1\n}\n",
		"broken.tf":    "variable \"x\" {",
		".hidden.tf":   "variable \"h\" {}\n",
		"sub/other.tf": "variable \"o\" {}\n",
	})
	got, err := Declarations(root, ".")
	if err != nil {
		t.Fatal(err)
	}
	delete(got, "x")
	want := Declared{"s": "string", "n": "number", "any": "", "l": "", "j": "string", "t": "string"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
