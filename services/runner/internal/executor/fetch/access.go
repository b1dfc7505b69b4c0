package fetch

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// DefaultSchemes are what repository URLs may begin with where nothing else is said. What modules, submodules and
// redirects name is held to the same list.
var DefaultSchemes = []string{"https", "ssh", "http", "git"}

// Access says how git may reach remotes.
type Access struct {
	// Schemes that URLs may have; nil for DefaultSchemes.
	Schemes []string
	// Helpers are git remote helpers by name, each of which serves the scheme of its name.
	Helpers []string
	// CredentialHelper is the command line that git asks for user names and passwords, SSH the one that it calls in place
	// of ssh. Empty: no credentials, and no host key is verified.
	CredentialHelper, SSH string
}

func (a Access) schemes() []string {
	if a.Schemes == nil {
		return DefaultSchemes
	}
	return a.Schemes
}

// protocols is what git may use, as GIT_ALLOW_PROTOCOL takes it.
func (a Access) protocols() string {
	return strings.Join(slices.Concat(a.schemes(), a.Helpers), ":")
}

var (
	withScheme = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*)://`)
	withHelper = regexp.MustCompile(`^[A-Za-z0-9+.-]+::`)
	scpHost    = regexp.MustCompile(`^([^@/:]+@)?(\[[0-9a-fA-F:.]+\]|[^@/:\[\]]+):`)
	scpLike    = regexp.MustCompile(`^([^@/:]+@)?(\[[0-9a-fA-F:.]+\]|[^@/:\[\]]+):.`)
)

// check refuses a URL that git could take for an option, a local folder or a program, and one whose scheme is not allowed.
func (a Access) check(url string) error {
	if strings.HasPrefix(url, "-") || strings.ContainsAny(url, "\x00\n\r") {
		return fmt.Errorf("fetching %q: %w: it begins with a dash or holds control characters", redact(url), ErrRefused)
	}
	scheme := ""
	switch found := withScheme.FindStringSubmatch(url); {
	case withHelper.MatchString(url):
	case found != nil:
		scheme = strings.ToLower(found[1])
	case scpLike.MatchString(url):
		scheme = "ssh"
	}
	if scheme == "" {
		return fmt.Errorf("fetching %q: %w: it is no plain repository URL", redact(url), ErrRefused)
	}
	if slices.Contains(a.schemes(), scheme) || slices.Contains(a.Helpers, scheme) {
		return nil
	}
	return fmt.Errorf("fetching %q: %w: runs may fetch over %s, not %s; the runner's flags --git-schemes and --git-helpers say over what",
		redact(url), ErrRefused, strings.Join(slices.Concat(a.schemes(), a.Helpers), ", "), scheme)
}

// Environment returns the variables that keep git from asking, from using what lies around and from other ways than those
// of a, on top of base. They reach every git that is started below, also by the tool.
func Environment(base []string, a Access) []string {
	env := append(base,
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ALLOW_PROTOCOL="+a.protocols(),
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_ASKPASS=/bin/false",
		"LC_ALL=C.UTF-8",
		"GIT_SSH_VARIANT=ssh",
		"GIT_SSH_COMMAND="+a.ssh(),
	)
	settings := a.settings()
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(settings)))
	for i, setting := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, setting[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, setting[1]))
	}
	return env
}

func (a Access) ssh() string {
	if a.SSH != "" {
		return a.SSH
	}
	// In batch mode ssh refuses every host that it does not know, and there are no known hosts to verify against.
	return "ssh -o BatchMode=yes -o ConnectTimeout=30 -o StrictHostKeyChecking=no -o UserKnownHostsFile=" + os.DevNull + " -o LogLevel=ERROR"
}

// settings of every git: no hooks, no helpers but ours, no background work, a bound on silence. Redirects are followed
// only on the first request of a fetch: from then on git uses, and sends credentials to, the place that it knows.
func (a Access) settings() [][2]string {
	null := os.DevNull
	all := [][2]string{
		{"core.hooksPath", null}, {"core.fsmonitor", "false"}, {"core.attributesFile", null}, {"gc.auto", "0"}, {"maintenance.auto", "false"},
		{"safe.directory", "*"}, {"advice.detachedHead", "false"}, {"init.defaultBranch", "main"}, {"submodule.recurse", "false"},
		{"http.lowSpeedLimit", "100"}, {"http.lowSpeedTime", "60"}, {"http.followRedirects", "initial"},
		{"core.protectNTFS", "true"}, {"core.protectHFS", "true"}, {"credential.useHttpPath", "true"}, {"credential.helper", ""},
	}
	if a.CredentialHelper != "" {
		all = append(all, [2]string{"credential.helper", a.CredentialHelper})
	}
	return all
}
