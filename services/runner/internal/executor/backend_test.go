package executor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAModuleWhoseStateWouldBeLostIsRefused(t *testing.T) {
	cases := map[string]struct {
		remembered string // what init wrote; empty for nothing
		refused    string // a part of the refusal; empty where there is none
	}{
		"no backend":                       {"", "declares no backend"},
		"init remembers none":              {`{"version":3}`, "declares no backend"},
		"a local one in the working copy":  {`{"version":3,"backend":{"type":"local","config":{"path":"state/x.tfstate","workspace_dir":null}}}`, `path "state/x.tfstate"`},
		"a local one that says not where":  {`{"version":3,"backend":{"type":"local","config":{"path":null}}}`, "keeps the state in the working copy"},
		"a local one on a volume":          {`{"version":3,"backend":{"type":"local","config":{"path":"/mnt/states/x"}}}`, ""},
		"kubernetes":                       {`{"version":3,"backend":{"type":"kubernetes","config":{"secret_suffix":"x"}}}`, ""},
		"one whose path is something else": {`{"version":3,"backend":{"type":"consul","config":{"path":"a/b"}}}`, ""},
		"something that cannot be read":    {`{`, "reading what init remembers"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tc.remembered != "" {
				if err := os.Mkdir(filepath.Join(dir, dataName), 0o750); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, dataName, "terraform.tfstate"), []byte(tc.remembered), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := requireBackend(dir)
			if tc.refused == "" && err != nil || tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)) {
				t.Errorf("got %v, want %q", err, tc.refused)
			}
		})
	}
}
