//go:build runpod

package executor

import (
	"encoding/base64"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"magosproject.io/services/runner/internal/executor/gittest"
	"magosproject.io/services/runner/internal/executor/sshtest"
	"magosproject.io/services/runner/internal/runspec"
)

// secret mounts a repository Secret into keeper.
func (p *pod) secret(name string, data map[string]string) {
	p.t.Helper()
	for key, value := range data {
		put(p.t, filepath.Join(p.dir, "repositories", name, key), value)
	}
}

// watched puts a git in front of the real one that writes down how it is called. It returns the environment for keeper, and
// the file.
func (w *workspace) watched() (env, file string) {
	w.t.Helper()
	real, err := exec.LookPath("git")
	must(w.t, err)
	bin := filepath.Join(w.root, "bin")
	file = filepath.Join(w.root, "git-calls")
	put(w.t, filepath.Join(bin, "git"), "#!/bin/sh\n{ echo \"$0 $*\"; env; } >>"+file+"\nexec "+real+" \"$@\"\n")
	must(w.t, os.Chmod(filepath.Join(bin, "git"), 0o755))
	return "PATH=" + bin + ":" + os.Getenv("PATH"), file
}

// planWith plays a plan pod whose keeper has a further environment.
func (p *pod) planWith(env string) planned {
	p.t.Helper()
	keeper, tool, show := p.start(runspec.ContainerKeeper, env), p.start(runspec.ContainerTool), p.start(runspec.ContainerShow)
	return planned{tool: tool.wait(), keeper: keeper.wait(), show: show.wait()}
}

// scan reads every byte that the pods left, and everything they printed, and fails for each of the planted values.
func (w *workspace) scan(result planned, planted ...string) {
	w.t.Helper()
	forms := map[string]bool{}
	for _, value := range planted {
		forms[value] = true
		forms[base64.StdEncoding.EncodeToString([]byte(value))] = true
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) > 20 && !strings.HasPrefix(line, "-----") {
				forms[line] = true
			}
		}
	}
	look := func(where, text string) {
		for form := range forms {
			if strings.Contains(text, form) {
				w.t.Errorf("%s holds a planted credential", where)
			}
		}
	}
	look("what was printed or reported", result.String())
	files := 0
	must(w.t, filepath.WalkDir(w.root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && entry.Name() == "repositories" {
			return filepath.SkipDir
		}
		if !entry.Type().IsRegular() {
			return err
		}
		files++
		data, err := os.ReadFile(name)
		look(name, string(data))
		return err
	}))
	if files < 5 {
		w.t.Errorf("only %d files were looked at", files)
	}
	for _, left := range []string{"credentials"} {
		if found, _ := filepath.Glob(filepath.Join(w.root, "pod-*", left, "*")); len(found) > 0 {
			w.t.Errorf("left in memory: %v", found)
		}
	}
}

const (
	herePassword  = "here-planted-password-1"
	therePassword = "there-planted-password-2"
)

// C45: the root by one credential, a submodule and a module on another host by theirs, and a third host that must see none.
func TestEachHostGetsItsOwnCredentialAndNothingKeepsIt(t *testing.T) {
	w := newWorkspace(t)
	here, there, open := gittest.NewServer(t), gittest.NewServer(t), gittest.NewServer(t)
	sub := there.Repo("sub", `echo 'output "o" { value = "from the submodule" }' >main.tf; git add .; git commit -qm 1`)
	mod := there.Repo("mod", `mkdir m; echo 'output "o" { value = "from the module" }' >m/main.tf; git add .; git commit -qm 1; git tag v1`)
	public := open.Repo("public", `echo 'output "o" { value = "public" }' >main.tf; git add .; git commit -qm 1`)
	root := here.Repo("root", `git submodule --quiet add `+sub.URL+` sub; git submodule --quiet add `+public.URL+` pub; git add .; git commit -qm 1`)
	commit := root.Commit(map[string]string{"main.tf": w.backend() + `
module "sub" { source = "./sub" }
module "pub" { source = "./pub" }
module "mod" { source = "git::` + mod.URL + `//m?ref=v1" }
module "far" { source = "git::` + public.URL + `" }
output "all" { value = "${module.sub.o}, ${module.mod.o}, ${module.pub.o}, ${module.far.o}" }
`})
	here.Protect("root", "bot", herePassword)
	there.Protect("sub", "team", therePassword)
	there.Protect("mod", "team", therePassword)

	p := w.newPlan(commit, nil)
	p.in.RepoURL = root.URL
	p.secret("here", map[string]string{"repoURL": here.URL, "username": "bot", "password": herePassword})
	p.secret("there", map[string]string{"repoURL": there.URL, "username": "team", "password": therePassword + "\n"})
	env, calls := w.watched()
	result := p.planWith(env)
	record, err := runspec.ParseRecord(result.keeper.message, p.in.RunID)
	if err != nil || record.Outcome != runspec.OutcomePlanned {
		t.Fatalf("%v\n%s", err, result)
	}
	if !strings.Contains(result.tool.log, "from the submodule, from the module, public, public") {
		t.Errorf("the plan is\n%s", result.tool.log)
	}
	if log, err := os.ReadFile(calls); err != nil || strings.Count(string(log), "/git ") < 10 {
		t.Errorf("git was not watched: %v", err)
	}
	for server, want := range map[*gittest.Server]string{here: "bot:" + herePassword, there: "team:" + therePassword} {
		for _, seen := range server.Authorizations() {
			if seen != "Basic "+base64.StdEncoding.EncodeToString([]byte(want)) {
				t.Errorf("a host was sent the credential of another one")
			}
		}
		if len(server.Authorizations()) == 0 {
			t.Errorf("%s was never sent its credential", server.URL)
		}
	}
	if seen := open.Authorizations(); len(seen) > 0 {
		t.Errorf("the public host was sent %d credentials", len(seen))
	}
	w.scan(result, herePassword, therePassword, "bot:"+herePassword, "team:"+therePassword)

	// The apply has the code that was planned, although the tag moved and the Secrets are gone.
	mod.Run(`echo 'output "o" { value = "moved" }' >m/main.tf; git add .; git commit -qm 2; git tag -f v1`)
	if applied := p.mustApply(record.Digest); strings.Contains(applied.log, "moved") || !strings.Contains(applied.log, "from the module") {
		t.Errorf("the apply printed\n%s", applied.log)
	}
}

func TestACredentialDoesNotFollowARedirect(t *testing.T) {
	w := newWorkspace(t)
	here, evil := gittest.NewServer(t), gittest.NewServer(t)
	stolen := evil.Repo("stolen", `git commit -q --allow-empty -m 1`)
	commit := stolen.Commit(map[string]string{"main.tf": w.backend()})
	moved := here.Repo("moved", `git commit -q --allow-empty -m 1`)
	here.Move("moved", stolen.URL)
	plan := func() *pod {
		p := w.newPlan(commit, nil)
		p.in.RepoURL = moved.URL
		p.secret("here", map[string]string{"repoURL": here.URL, "username": "bot", "password": herePassword})
		return p
	}
	plan().mustPlan()

	evil.Protect("stolen", "bot", "evil-planted")
	record, result := plan().mustFail(reasonFetchFailed)
	if !strings.Contains(record.Message, stolen.URL+" wants a credential") {
		t.Errorf("the message is %q", record.Message)
	}
	w.scan(result, herePassword)

	known := plan()
	known.secret("there", map[string]string{"repoURL": evil.URL + "/stolen", "username": "bot", "password": "evil-planted"})
	known.mustPlan()
	for _, seen := range evil.Authorizations() {
		if seen != "Basic "+base64.StdEncoding.EncodeToString([]byte("bot:evil-planted")) {
			t.Errorf("where it redirects to was sent %q", seen)
		}
	}
	before := len(evil.Authorizations())

	// A host that redirects only those who have authenticated.
	here.Protect("moved", "bot", herePassword)
	plan().mustFail(reasonFetchFailed)
	if len(here.Authorizations()) == 0 || len(evil.Authorizations()) != before {
		t.Errorf("%d credentials for the host, %d more for where it redirects", len(here.Authorizations()), len(evil.Authorizations())-before)
	}
}

func TestAMissingOrWrongCredentialIsNamed(t *testing.T) {
	w := newWorkspace(t)
	here := gittest.NewServer(t)
	root := here.Repo("root", `git commit -q --allow-empty -m 1`)
	open := here.Repo("open", `git commit -q --allow-empty -m 1`)
	here.Protect("root", "bot", herePassword)
	commit := root.Rev("main")
	module := open.Commit(map[string]string{"main.tf": w.backend() + "module \"hidden\" {\n  source = \"git::" + root.URL + "\"\n}\n"})
	for name, c := range map[string]struct {
		url, commit string
		data        map[string]string
		says        []string
	}{
		"none":      {root.URL, commit, nil, []string{root.URL, "wants a credential", "magosproject.io/secret-type=repository"}},
		"wrong":     {root.URL, commit, map[string]string{"repoURL": here.URL, "username": "bot", "password": "wrong-planted"}, []string{"did not accept the credential in Secret creds"}},
		"malformed": {root.URL, commit, map[string]string{"repoURL": here.URL, "username": "bot"}, []string{"Secret creds cannot be used: key password is missing"}},
		"a module":  {open.URL, module, nil, []string{root.URL, "wants a credential", "hidden"}},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			p := w.newPlan(c.commit, nil)
			p.in.RepoURL = c.url
			p.secret("creds", c.data)
			record, result := p.mustFail(reasonFetchFailed)
			for _, part := range c.says {
				if !strings.Contains(record.Message, part) {
					t.Errorf("the message %q lacks %q", record.Message, part)
				}
			}
			w.scan(result, "wrong-planted")
		})
	}
}

func sshCache(t *testing.T) string {
	t.Helper()
	cache := os.Getenv("MAGOS_TEST_CACHE")
	if cache == "" {
		t.Fatal("MAGOS_TEST_CACHE must name a folder that is kept; make test sets it")
	}
	return cache
}

// C09, over Debian's sshd.
func TestAnSSHKeyAndKnownHostsAreUsedAndVerified(t *testing.T) {
	w := newWorkspace(t)
	server := sshtest.Start(t, sshCache(t), "ed25519", "rsa")
	other := sshtest.Start(t, sshCache(t), "ed25519", "rsa")
	key := server.NewKey()
	mod := w.repo.Commit(map[string]string{"m/main.tf": "output \"o\" {\n  value = \"by ssh\"\n}\n"})
	url := "ssh://git@" + server.Address + w.repo.Dir + "/.git"
	commit := w.repo.Commit(map[string]string{"main.tf": w.backend() + "module \"m\" {\n  source = \"git::" + url + "//m?ref=" + mod + "\"\n}\noutput \"o\" {\n  value = module.m.o\n}\n"})
	plan := func(t *testing.T, data map[string]string) *pod {
		w.t = t
		p := w.newPlan(commit, nil)
		p.in.RepoURL = url
		data["repoURL"] = "ssh://git@" + server.Address
		p.secret("deploy", data)
		return p
	}
	for name, known := range map[string]string{
		"both kinds": server.KnownHosts("rsa", "ed25519"), "only one of its kinds": server.KnownHosts("rsa"),
		"beside another host": strings.Replace(other.KnownHosts("ed25519"), "127.0.0.1", "127.0.0.9", 1) + server.KnownHosts("ed25519"),
	} {
		t.Run(name, func(t *testing.T) {
			_, result := plan(t, map[string]string{"sshPrivateKey": key, "knownHosts": known}).mustPlan()
			if !strings.Contains(result.tool.log, "by ssh") || strings.Contains(result.keeper.log, "not verified") {
				t.Errorf("keeper said\n%s\ntool\n%s", result.keeper.log, result.tool.log)
			}
			w.scan(result, key)
		})
	}
	t.Run("without known hosts", func(t *testing.T) {
		_, result := plan(t, map[string]string{"sshPrivateKey": key}).mustPlan()
		if strings.Count(result.keeper.log, "host keys are not verified") != 1 || !strings.Contains(result.keeper.log, "secret=deploy") {
			t.Errorf("keeper said\n%s", result.keeper.log)
		}
		w.scan(result, key)
	})
	for name, c := range map[string]struct {
		data map[string]string
		says []string
	}{
		"another key of the host": {map[string]string{"sshPrivateKey": key, "knownHosts": strings.ReplaceAll(other.KnownHosts("ed25519"), other.Address[len("127.0.0.1:"):], server.Address[len("127.0.0.1:"):])},
			[]string{server.Address, "ssh-ed25519 key " + server.Fingerprint("ed25519"), "knownHosts of Secret deploy"}},
		"a host that is not listed": {map[string]string{"sshPrivateKey": key, "knownHosts": other.KnownHosts("ed25519")},
			[]string{server.Address, "SHA256:", "knownHosts of Secret deploy"}},
		"a key that was revoked": {map[string]string{"sshPrivateKey": other.NewKey(), "knownHosts": server.KnownHosts("ed25519")},
			[]string{"did not accept the ssh key of Secret deploy"}},
		"an empty list": {map[string]string{"sshPrivateKey": key, "knownHosts": "\n"},
			[]string{"Secret deploy", "knownHosts"}},
	} {
		t.Run(name, func(t *testing.T) {
			record, result := plan(t, c.data).mustFail(reasonFetchFailed)
			for _, part := range c.says {
				if !strings.Contains(record.Message, part) {
					t.Errorf("the message %q lacks %q\n%s", record.Message, part, result.keeper.log)
				}
			}
			w.scan(result, c.data["sshPrivateKey"])
		})
	}
}
