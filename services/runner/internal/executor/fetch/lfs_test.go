package fetch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestPointersOfLFSAreFoundAndRefusedWhereTheToolReads(t *testing.T) {
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
	root := t.TempDir()
	for name, content := range map[string]string{
		"m/.gitattributes": "*.zip filter=lfs diff=lfs merge=lfs -text\n", "m/a.zip": pointer, "data/b.zip": pointer, "m/main.tf": "", "m/text": "version 1\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := Pointers(root)
	if want := []string{"data/b.zip", "m/a.zip"}; err != nil || !slices.Equal(found, want) {
		t.Errorf("found %q, %v; want %q", found, err, want)
	}
	for name, refused := range map[string]bool{"m/a.zip": false, "m/x.tf": true, "m/x.auto.tfvars.json": true, "other/x.tf": false, "env/dev.tfvars": true, "m/.terraform.lock.hcl": true} {
		if err := CheckPointers([]string{"data/b.zip", name}, "m", "env/dev.tfvars"); (err != nil) != refused || err != nil && !errors.Is(err, ErrPointer) {
			t.Errorf("%s: %v, want refused %v", name, err, refused)
		}
	}
	if err := os.Remove(filepath.Join(root, "m/.gitattributes")); err != nil {
		t.Fatal(err)
	}
	if found, err := Pointers(root); err != nil || len(found) > 0 {
		t.Errorf("without attributes: %q, %v", found, err)
	}
}
