package links

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"magosproject.io/services/runner/internal/executor/beneath"
)

func TestLinksThatLeaveAreRefusedAndOthersAreNot(t *testing.T) {
	for name, c := range map[string]struct {
		links  map[string]string
		leaves bool
	}{
		"sibling folder":             {map[string]string{"infra/dev": "../common"}, false},
		"file beside":                {map[string]string{"x.tf": "main.tf"}, false},
		"dangling inside":            {map[string]string{"x": "nowhere/at/all"}, false},
		"loop":                       {map[string]string{"x": "y", "y": "x"}, false},
		"absolute into its home":     {map[string]string{"x": "/home/of/tree/common"}, false},
		"absolute beside its home":   {map[string]string{"x": "/home/of/treehouse"}, true},
		"absolute with dots":         {map[string]string{"x": "/home/of/tree/../secret"}, true},
		"etc":                        {map[string]string{"main2.tf": "/etc/passwd"}, true},
		"out by dots":                {map[string]string{"modules": "../../other-tenant"}, true},
		"out from below":             {map[string]string{"infra/x": "../../y"}, true},
		"dangling out":               {map[string]string{"x": "nowhere/../../y"}, true},
		"out through another link":   {map[string]string{"infra/l": "../common", "x": "infra/l/../../y"}, true},
		"dots after a link, inside":  {map[string]string{"l": "infra/deep", "x": "l/../f"}, false},
		"root of the tree itself":    {map[string]string{"infra/up": ".."}, false},
		"chain whose end leaves":     {map[string]string{"a": "b", "b": "/etc"}, true},
		"link below a link to a dir": {map[string]string{"infra/deep/l": "../../main.tf"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, folder := range []string{"infra/deep", "common"} {
				if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(root, "main.tf"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for link, target := range c.links {
				if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
					t.Fatal(err)
				}
			}
			dir, err := beneath.OpenDir(root)
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			err = Check(dir, "/home/of/tree", nil)
			if errors.Is(err, ErrLeaves) != c.leaves || (err != nil) != c.leaves {
				t.Errorf("Check = %v, leaves should be %v", err, c.leaves)
			}
		})
	}
}
