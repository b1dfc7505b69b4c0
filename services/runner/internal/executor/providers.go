package executor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"magosproject.io/services/runner/internal/executor/fetch"
	"magosproject.io/services/runner/internal/executor/process"
	"magosproject.io/services/runner/internal/runspec"
)

// fetchProviders has the tool fetch modules and providers. It starts none of them. A mirror is asked first and the
// registries only for what the mirror has not, if they may be asked at all.
func (c *container) fetchProviders(ctx context.Context, tool, module string) error {
	if err := c.openCache(); err != nil {
		return err
	}
	return c.closeCache(c.fetchFromPlaces(ctx, tool, module))
}

func (c *container) fetchFromPlaces(ctx context.Context, tool, module string) error {
	mirror := c.in.ProviderMirror
	if mirror == "" {
		if c.in.ProviderMirrorOnly {
			return failf(runspec.ExitFetchFailed, reasonFetchFailed, "providers are limited to a mirror, and none is named: give the runner --provider-mirror")
		}
		return c.initialize(ctx, tool, module, registriesOnly, nil)
	}
	if strings.HasPrefix(mirror, "/") {
		config, err := folderInstallation(mirror, c.in.ProviderMirrorOnly)
		if err != nil {
			return fail(runspec.ExitFetchFailed, reasonFetchFailed, err)
		}
		return c.initialize(ctx, tool, module, config, nil)
	}
	var extra []string
	if strings.HasPrefix(mirror, "http://") {
		proxy, err := startMirrorProxy(mirror, c.cfg.Paths.Scratch)
		if err != nil {
			return fail(runspec.ExitInternal, reasonFetchFailed, err)
		}
		defer proxy.stop()
		mirror, extra = proxy.url, []string{"SSL_CERT_FILE=" + proxy.authorities}
	}
	if !strings.HasSuffix(mirror, "/") {
		mirror += "/"
	}
	config := "provider_installation {\n  network_mirror {\n    url = " + quoteHCL(mirror) + "\n  }\n%s}\n"
	err := c.initialize(ctx, tool, module, fmt.Sprintf(config, ""), extra)
	if err == nil || ctx.Err() != nil || c.in.ProviderMirrorOnly {
		return err
	}
	c.log.Info("the provider mirror alone was not enough; asking the registries too", "mirror", c.in.ProviderMirror)
	return c.initialize(ctx, tool, module, fmt.Sprintf(config, "  direct {}\n"), extra)
}

// registriesOnly is written although it names the tools' default place: where a configuration names none, the tools look
// for providers in folders too, among them terraform.d of the module, and what lies there wins over the registry.
const registriesOnly = "provider_installation {\n  direct {}\n}\n"

func (c *container) initialize(ctx context.Context, tool, module, installation string, extra []string) error {
	config, err := c.writeCLIConfig(installation)
	if err != nil {
		return err
	}
	env, err := c.toolEnvironment(config)
	if err != nil {
		return err
	}
	dir := filepath.Join(c.cfg.Paths.checkout(c.in.RunID), module)
	env = append(fetch.Environment(env, c.access()), "TF_PLUGIN_CACHE_DIR="+c.cfg.Paths.pluginCache())
	env = append(env, extra...)
	if _, err := os.Lstat(filepath.Join(dir, lockFileName)); errors.Is(err, fs.ErrNotExist) {
		// Nothing pins a checksum, so the cache, which only keeper writes, is as good as a download.
		env = append(env, "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE=1")
	}
	confine, err := c.hideCredentials(module)
	if err != nil {
		return err
	}
	command := process.Command{
		Path: tool, Args: []string{"init", "-backend=false", "-input=false", "-no-color"}, Dir: dir, Env: env, Confine: confine,
	}
	out, err := c.runInit(ctx, command)
	if err == nil {
		return nil
	}
	if ctx.Err() == nil && slices.ContainsFunc(tornWords, out.said.Contains) {
		c.log.Warn("the cache has another provider under a name than was fetched; it is emptied, and all are fetched again")
		if err := empty(c.cfg.Paths.pluginCache()); err != nil {
			return err
		}
		if err := c.openCache(); err != nil {
			return err
		}
		if out, err = c.runInit(ctx, command); err == nil {
			return nil
		}
	}
	if ctx.Err() != nil {
		return orInterrupted(ctx, err)
	}
	return initFailed(err, tool, out)
}

func (c *container) runInit(ctx context.Context, command process.Command) (*toolOutput, error) {
	out := newToolOutput(c.cfg.Stdout, c.git.Forms())
	command.Output = out
	err := c.group.Run(ctx, command, 10*time.Second)
	out.end()
	return out, err
}

// fetchWords are in what the tools print when something could not be fetched. Anything else that init finds is a fault
// of the module. The distinction only chooses the reason that people see.
var fetchWords = []string{
	"Failed to query available provider packages", "Failed to resolve provider packages", "Failed to install provider", "Could not retrieve", "Module not found",
	"Failed to download module", "Could not download module", "Error accessing remote module registry",
}

func initFailed(err error, tool string, out *toolOutput) error {
	words := out.words()
	if out.said.Contains("checksums previously recorded") {
		words += fmt.Sprintf("\nThe lock file has no checksum for this platform: run `%s providers lock -platform=%s_%s` and commit %s.",
			filepath.Base(tool), runtime.GOOS, runtime.GOARCH, lockFileName)
	}
	words += sourceHint(out)
	if slices.ContainsFunc(fetchWords, out.said.Contains) {
		return failf(runspec.ExitFetchFailed, reasonFetchFailed, "fetching modules and providers: %w%s", err, words)
	}
	return failf(runspec.ExitToolFailed, reasonPlanFailed, "initializing the module: %w%s", err, words)
}

// folderInstallation uses the folder for the providers that it has, and the registries, unless it is the only place, for
// all others.
func folderInstallation(mirror string, only bool) (string, error) {
	found, err := filepath.Glob(filepath.Join(mirror, "*", "*", "*"))
	if err != nil {
		return "", fmt.Errorf("reading provider mirror %s: %w", mirror, err)
	}
	var names []string
	for _, name := range found {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			names = append(names, quoteHCL(strings.TrimPrefix(name, filepath.Clean(mirror)+"/")))
		}
	}
	if len(names) == 0 {
		return "", fmt.Errorf("provider mirror %s holds no provider: want <host>/<namespace>/<type>/<version>/<platform>", mirror)
	}
	list := "[" + strings.Join(names, ", ") + "]"
	direct := "  direct {\n    exclude = " + list + "\n  }\n"
	if only {
		direct = ""
	}
	return fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %s\n    include = %s\n  }\n%s}\n",
		quoteHCL(filepath.Clean(mirror)), list, direct), nil
}

func quoteHCL(text string) string {
	return string(hclwrite.TokensForValue(cty.StringVal(text)).Bytes())
}
