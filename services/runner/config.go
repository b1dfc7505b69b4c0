package main

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"magosproject.io/services/runner/internal/execution"
)

// Config has the settings of the runner alone.
type Config struct {
	// RunImage is the image of every container of a run; required.
	RunImage string
	// RunImagePullPolicy is Always, IfNotPresent or Never; default IfNotPresent.
	RunImagePullPolicy string
	// ToolMirror has the tools and is asked before the official sites: an https or http URL, or an absolute folder in the run image; default none.
	ToolMirror string
	// ProviderMirror is the same for providers; default none.
	ProviderMirror string
	// ProviderMirrorOnly keeps runs from asking the providers' registries; it needs ProviderMirror. Default false.
	ProviderMirrorOnly bool
	// GitSchemes are what repository URLs may begin with, also those of submodules, modules and redirects; default https, ssh, http and git.
	// GitHelpers are git remote helpers of the run image that may be used too, each for the scheme of its name; default none.
	GitSchemes, GitHelpers string
	// StorageClassName of the Workspaces' volumes; default the cluster's default.
	StorageClassName string
	// StorageSize of the Workspaces' volumes; default 1Gi.
	StorageSize string
	// PlanGrace is how long a plan's pod may take to end when it is asked to; default 60 s.
	PlanGrace time.Duration
	// ApplyGrace is the same for an apply, which must be able to save its state; default 10 min.
	ApplyGrace time.Duration
	// NodeLossGrace is how long after the loss of its node a pod counts as running; default 5 min.
	NodeLossGrace time.Duration
	// KeeperResources, ToolResources and ShowResources of the containers, as requests.cpu=100m,limits.memory=2Gi.
	KeeperResources, ToolResources, ShowResources string
	// Workers is how many runs are looked after at once; default 8.
	Workers int
}

// NewDefaultConfig has the defaults.
func NewDefaultConfig() Config {
	return Config{
		RunImagePullPolicy: string(corev1.PullIfNotPresent),
		GitSchemes:         "https,ssh,http,git",
		StorageSize:        "1Gi",
		PlanGrace:          time.Minute,
		ApplyGrace:         10 * time.Minute,
		NodeLossGrace:      5 * time.Minute,
		KeeperResources:    "requests.cpu=50m,requests.memory=128Mi,limits.memory=1Gi",
		ToolResources:      "requests.cpu=100m,requests.memory=256Mi,limits.memory=2Gi",
		ShowResources:      "requests.cpu=50m,requests.memory=128Mi,limits.memory=1Gi",
		Workers:            8,
	}
}

// BindFlags makes a flag of each setting.
func (c *Config) BindFlags(flags *flag.FlagSet) {
	flags.StringVar(&c.RunImage, "run-image", c.RunImage, "image of every container of a run")
	flags.StringVar(&c.RunImagePullPolicy, "run-image-pull-policy", c.RunImagePullPolicy, "Always, IfNotPresent or Never")
	flags.StringVar(&c.ToolMirror, "tool-mirror", c.ToolMirror, "where tools are looked for before the official sites: a URL, or a folder in the run image")
	flags.StringVar(&c.ProviderMirror, "provider-mirror", c.ProviderMirror, "where providers are looked for before their registries: a URL, or a folder in the run image")
	flags.BoolVar(&c.ProviderMirrorOnly, "provider-mirror-only", c.ProviderMirrorOnly, "providers come from the provider mirror and from nowhere else")
	flags.StringVar(&c.GitSchemes, "git-schemes", c.GitSchemes, "schemes over which runs may fetch, separated by commas; also for submodules, modules and redirects")
	flags.StringVar(&c.GitHelpers, "git-helpers", c.GitHelpers, "git remote helpers of the run image that runs may use, by name, separated by commas")
	flags.StringVar(&c.StorageClassName, "storage-class-name", c.StorageClassName, "StorageClass of the Workspaces' volumes; empty for the cluster's default")
	flags.StringVar(&c.StorageSize, "storage-size", c.StorageSize, "size of the Workspaces' volumes")
	flags.DurationVar(&c.PlanGrace, "plan-grace", c.PlanGrace, "how long a plan's pod may take to end when it is asked to")
	flags.DurationVar(&c.ApplyGrace, "apply-grace", c.ApplyGrace, "how long an apply's pod may take to end when it is asked to")
	flags.DurationVar(&c.NodeLossGrace, "node-loss-grace", c.NodeLossGrace, "how long after the loss of its node a pod counts as running")
	flags.StringVar(&c.KeeperResources, "keeper-resources", c.KeeperResources, "resources of the container that fetches, seals and reports")
	flags.StringVar(&c.ToolResources, "tool-resources", c.ToolResources, "resources of the container that runs the tool")
	flags.StringVar(&c.ShowResources, "show-resources", c.ShowResources, "resources of the container that renders the plan")
	flags.IntVar(&c.Workers, "workers", c.Workers, "how many runs are looked after at once")
}

// Validate joins everything that is wrong.
func (c *Config) Validate() error {
	_, err := c.Settings()
	errs := []error{err}
	if c.NodeLossGrace < time.Minute {
		errs = append(errs, fmt.Errorf("--node-loss-grace: %s is too short: a node that is gone for less is often only slow; want at least 1m", c.NodeLossGrace))
	}
	if c.Workers < 1 {
		errs = append(errs, fmt.Errorf("--workers: want at least 1, got %d", c.Workers))
	}
	return errors.Join(errs...)
}

// Settings are what the configuration says about every run; the error joins everything that is wrong.
func (c *Config) Settings() (execution.Settings, error) {
	s := execution.Settings{
		RunImage: c.RunImage, PullPolicy: corev1.PullPolicy(c.RunImagePullPolicy), ToolMirror: c.ToolMirror, ProviderMirror: c.ProviderMirror,
		ProviderMirrorOnly: c.ProviderMirrorOnly,
		PlanGrace:          c.PlanGrace, ApplyGrace: c.ApplyGrace, StorageClass: c.StorageClassName,
	}
	var errs []error
	if c.RunImage == "" {
		errs = append(errs, errors.New("--run-image: is required"))
	}
	switch s.PullPolicy {
	case corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		errs = append(errs, fmt.Errorf("--run-image-pull-policy: %q is none of Always, IfNotPresent, Never", c.RunImagePullPolicy))
	}
	var err error
	if s.GitSchemes, s.GitHelpers, err = c.git(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, checkMirror("--tool-mirror", c.ToolMirror), checkMirror("--provider-mirror", c.ProviderMirror))
	if c.ProviderMirrorOnly && c.ProviderMirror == "" {
		errs = append(errs, errors.New("--provider-mirror-only: needs --provider-mirror, or no provider could be had from anywhere"))
	}
	for name, grace := range map[string]time.Duration{"--plan-grace": c.PlanGrace, "--apply-grace": c.ApplyGrace} {
		if grace < 2*time.Second || grace > 24*time.Hour || grace%time.Second != 0 {
			errs = append(errs, fmt.Errorf("%s: want whole seconds between 2s and 24h, got %s", name, grace))
		}
	}
	if s.StorageSize, err = resource.ParseQuantity(c.StorageSize); err != nil || s.StorageSize.Sign() <= 0 {
		errs = append(errs, fmt.Errorf("--storage-size: %q is no size such as 1Gi", c.StorageSize))
	}
	for _, r := range []struct {
		flag, text string
		into       *corev1.ResourceRequirements
	}{
		{"--keeper-resources", c.KeeperResources, &s.Keeper}, {"--tool-resources", c.ToolResources, &s.Tool}, {"--show-resources", c.ShowResources, &s.Show},
	} {
		if *r.into, err = parseResources(r.text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.flag, err))
		}
	}
	return s, errors.Join(errs...)
}

// parseResources reads requests.cpu=100m,limits.memory=2Gi; empty for none.
func parseResources(text string) (corev1.ResourceRequirements, error) {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	for _, entry := range strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' }) {
		name, amount, found := strings.Cut(entry, "=")
		kind, of, dotted := strings.Cut(name, ".")
		list := map[string]corev1.ResourceList{"requests": r.Requests, "limits": r.Limits}[kind]
		if !found || !dotted || list == nil || of == "" {
			return r, fmt.Errorf("%q is not of the form requests.cpu=100m or limits.memory=2Gi", entry)
		}
		quantity, err := resource.ParseQuantity(amount)
		if err != nil || quantity.Sign() < 0 {
			return r, fmt.Errorf("%q in %q is no quantity", amount, entry)
		}
		list[corev1.ResourceName(of)] = quantity
	}
	for name, request := range r.Requests {
		if limit, ok := r.Limits[name]; ok && limit.Cmp(request) < 0 {
			return r, fmt.Errorf("limits.%s is below requests.%s", name, name)
		}
	}
	return r, nil
}

// schemes that git speaks by itself and that lead to another machine.
var schemes = []string{"https", "ssh", "http", "git"}

var helperName = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)

// git reads the lists of schemes and helpers. Helpers that run whatever a URL says, or read what is on the node, can never be.
func (c *Config) git() (allowed, helpers []string, err error) {
	var errs []error
	allowed, helpers = split(c.GitSchemes), split(c.GitHelpers)
	if len(allowed) == 0 {
		errs = append(errs, errors.New("--git-schemes: is empty"))
	}
	for _, scheme := range allowed {
		if !slices.Contains(schemes, scheme) {
			errs = append(errs, fmt.Errorf("--git-schemes: %q is none of %s", scheme, strings.Join(schemes, ", ")))
		}
	}
	for _, helper := range helpers {
		switch {
		case slices.Contains([]string{"ext", "fd", "file"}, helper):
			errs = append(errs, fmt.Errorf("--git-helpers: %q can never be allowed: it lets a URL run programs or read files", helper))
		case slices.Contains(append([]string{"ftp", "ftps"}, schemes...), helper) || !helperName.MatchString(helper):
			errs = append(errs, fmt.Errorf("--git-helpers: %q is no name of a git remote helper", helper))
		}
	}
	return allowed, helpers, errors.Join(errs...)
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

func checkMirror(flag, mirror string) error {
	if mirror == "" || path.IsAbs(mirror) {
		return nil
	}
	u, err := url.Parse(mirror)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return fmt.Errorf("%s: %q is neither an https or http URL nor an absolute folder", flag, mirror)
	}
	return nil
}
