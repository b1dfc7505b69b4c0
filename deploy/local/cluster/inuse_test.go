package cluster

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInUseIsWhatRunsAndWhatAClusterWouldStart(t *testing.T) {
	root := t.TempDir()
	state := filepath.Join(root, "some")
	if err := os.Mkdir(state, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "node.json"), []byte(`{"visible":["/cache/parts/0123"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	inUse, err := InUse(Config{Name: "any", StateRoot: root})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]bool{"/cache/parts/0123": true, "/cache/parts/4567": false, filepath.Dir(self): true, t.TempDir(): false} {
		if got := inUse(folder); got != want {
			t.Errorf("%s is in use: %v, want %v", folder, got, want)
		}
	}
}
