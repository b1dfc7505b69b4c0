package execution

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/runspec"
)

// Bounds of a request.
const (
	maxTimeout = 7 * 24 * time.Hour
	// maxLiterals leaves room in a ConfigMap, which holds 1 MiB, for the instructions.
	maxLiterals  = 900 << 10
	maxVariables = 1000
	// maxRepositorySecrets keeps the pod far below the size that the API server takes.
	maxRepositorySecrets = 256
	maxText              = 2048
)

var (
	commitPattern   = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	versionPattern  = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z]+([.-][0-9A-Za-z]+)*)?$`)
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
	digestPattern   = regexp.MustCompile(`^[A-Za-z0-9:._+/=-]{8,128}$`)
)

// Violation says what is wrong with one field of a request; Field is its path in the RPC's message.
type Violation struct {
	Field       string
	Description string
}

type checker struct{ found []Violation }

func (c *checker) require(ok bool, field, format string, args ...any) {
	if !ok {
		c.found = append(c.found, Violation{Field: field, Description: fmt.Sprintf(format, args...)})
	}
}

// CheckKey says what is wrong with a key; nothing when it is sound.
func CheckKey(k Key) []Violation {
	c := &checker{}
	c.require(len(validation.IsDNS1123Label(k.Namespace)) == 0, "key.workspace.namespace", "is no namespace name")
	c.require(len(validation.IsDNS1123Subdomain(k.Workspace)) == 0 && len(k.Workspace) <= 63, "key.workspace.name", "is no Workspace name")
	c.require(len(validation.IsDNS1123Label(k.WorkspaceUID)) == 0, "key.workspace.uid", "is no UID")
	c.require(len(validation.IsDNS1123Label(k.RunID)) == 0, "key.run_id", "must be at most 63 lowercase letters, digits and hyphens")
	c.require(k.WorkspaceUID == "" || strings.HasPrefix(k.RunID, k.WorkspaceUID+"-"), "key.run_id",
		"must begin with the Workspace's UID and a hyphen, so that runs of two Workspaces never share a name")
	c.require(k.Phase == runspec.PhasePlan || k.Phase == runspec.PhaseApply, "key.phase", "must be plan or apply")
	return c.found
}

// Check says everything that is wrong with a request; nothing when it is sound.
func Check(r Request) []Violation {
	c := &checker{found: CheckKey(r.Key)}
	c.source(r)
	c.tool(r)
	c.pod(r)
	c.phase(r)
	c.variables(r.Variables)
	c.repositorySecrets(r)
	return c.found
}

func (c *checker) source(r Request) {
	c.require(isPlainText(r.RepoURL), "source.repo_url", "must be an address without a leading hyphen, blanks or control characters")
	c.require(commitPattern.MatchString(r.Revision), "source.revision", "must be a full commit SHA, never a branch")
	c.require(isPlainText(r.TargetRevision), "source.target_revision", "must be a revision without a leading hyphen, blanks or control characters")
	c.require(staysInside(r.Path), "source.path", "must be a folder inside the repository, such as . or infra/dev")
}

func (c *checker) tool(r Request) {
	c.require(r.Engine == v1alpha1.EngineTerraform || r.Engine == v1alpha1.EngineOpenTofu, "tool.engine", "must be ENGINE_TERRAFORM or ENGINE_OPENTOFU")
	c.require(len(r.ToolVersion) <= 64 && versionPattern.MatchString(r.ToolVersion), "tool.version", "must be an exact version such as 1.14.8")
}

func (c *checker) pod(r Request) {
	c.require(len(validation.IsDNS1123Subdomain(r.ServiceAccount)) == 0, "service_account_name", "is no ServiceAccount name")
	c.require(r.Timeout >= time.Second && r.Timeout <= maxTimeout, "timeout", "must be between 1s and %s", maxTimeout)
	c.require(r.TFLogLevel == "" || slices.Contains(v1alpha1.TFLogLevels(), r.TFLogLevel), "tf_log_level", "must be one of %q, or empty", v1alpha1.TFLogLevels())
	for key := range r.PodAnnotations {
		c.require(len(validation.IsQualifiedName(strings.ToLower(key))) == 0, "pod_annotations", "%q is no annotation key", key)
		c.require(!strings.HasPrefix(key, v1alpha1.GroupName+"/"), "pod_annotations", "%q is Magos's own", key)
	}
}

// phase holds what only one of the two phases may have.
func (c *checker) phase(r Request) {
	if r.Phase == runspec.PhaseApply {
		c.require(digestPattern.MatchString(r.PlanDigest), "plan_digest", "must be the digest of the plan to apply")
		c.require(r.TfvarsPath == "", "tfvars_path", "must be absent for an apply: the plan has the values")
		c.require(len(r.Variables) == 0, "variables", "must be absent for an apply: the plan has the values")
		return
	}
	c.require(r.PlanDigest == "", "plan_digest", "must be absent for a plan")
	c.require(r.TfvarsPath == "" || staysInside(r.TfvarsPath), "tfvars_path", "must be a file inside the repository, such as env/dev.tfvars")
}

func (c *checker) variables(variables []Variable) {
	c.require(len(variables) <= maxVariables, "variables", "must be at most %d", maxVariables)
	seen, literals := map[string]bool{}, 0
	for i, v := range variables {
		field := fmt.Sprintf("variables[%d]", i)
		c.require(len(v.Name) <= 255 && variablePattern.MatchString(v.Name), field+".name", "must be a Terraform identifier of ASCII letters, digits, _ and -")
		c.require(!seen[v.Name], field+".name", "%q is there twice", v.Name)
		seen[v.Name] = true
		c.require(sources(v) == 1, field, "must have exactly one source")
		if v.Value != nil {
			literals += len(*v.Value)
		}
		c.ref(field+".secret_key_ref", v.Secret)
		c.ref(field+".config_map_key_ref", v.ConfigMap)
	}
	c.require(literals <= maxLiterals, "variables", "literals must be at most %d bytes together: put large ones into a ConfigMap", maxLiterals)
}

func (c *checker) repositorySecrets(r Request) {
	c.require(len(r.RepositorySecrets) <= maxRepositorySecrets, "repository_secrets", "must be at most %d: one Secret can serve all repositories of a host",
		maxRepositorySecrets)
	c.require(len(r.RepositorySecrets) == 0 || r.Phase != runspec.PhaseApply, "repository_secrets", "must be absent for an apply: it fetches nothing")
	seen := map[string]bool{}
	for i, name := range r.RepositorySecrets {
		field := fmt.Sprintf("repository_secrets[%d]", i)
		c.require(len(validation.IsDNS1123Subdomain(name)) == 0, field, "is no Secret name")
		c.require(!seen[name], field, "%q is there twice", name)
		seen[name] = true
	}
}

func (c *checker) ref(field string, ref *KeyRef) {
	if ref == nil {
		return
	}
	c.require(len(validation.IsDNS1123Subdomain(ref.Name)) == 0, field+".name", "is no object name")
	c.require(len(validation.IsConfigMapKey(ref.Key)) == 0, field+".key", "is no key")
}

func sources(v Variable) int {
	n := 0
	for _, present := range []bool{v.Value != nil, v.Secret != nil, v.ConfigMap != nil} {
		if present {
			n++
		}
	}
	return n
}

// isPlainText refuses what git could take for an option, and what no address or ref holds.
func isPlainText(s string) bool {
	return s != "" && len(s) <= maxText && !strings.HasPrefix(s, "-") && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// staysInside accepts relative paths that cannot leave the repository.
func staysInside(p string) bool {
	if p == "" || len(p) > maxText || strings.HasPrefix(p, "-") || path.IsAbs(p) || strings.Contains(p, `\`) {
		return false
	}
	if strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return false
	}
	clean := path.Clean(p)
	return clean != ".." && !strings.HasPrefix(clean, "../")
}
