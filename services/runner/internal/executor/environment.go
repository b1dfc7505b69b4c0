package executor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns what every program of this container gets: the container's own variables, which carry the cloud
// identity, but for those that would steer the tool or git, and a home and a folder for temporary files of its own.
func (c *container) environment() ([]string, error) {
	home, tmp := filepath.Join(c.cfg.Paths.Scratch, "home"), filepath.Join(c.cfg.Paths.Scratch, "tmp")
	for _, folder := range []string{home, tmp} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return nil, fmt.Errorf("making a home: %w", err)
		}
	}
	path := defaultPath
	var env []string
	for _, entry := range c.cfg.Environment {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case name == "PATH" && value != "":
			path = value
		case name == "HOME" || name == "TMPDIR" || name == "PATH":
		case strings.HasPrefix(name, "TF_") && !strings.HasPrefix(name, "TF_LOG"), strings.HasPrefix(name, "GIT_"):
		default:
			env = append(env, entry)
		}
	}
	return append(env, "PATH="+path, "HOME="+home, "TMPDIR="+tmp), nil
}

// toolEnvironment adds what the tool has to know. configFile is its CLI configuration: no rc file counts.
func (c *container) toolEnvironment(configFile string) ([]string, error) {
	env, err := c.environment()
	if err != nil {
		return nil, err
	}
	return append(env,
		"TF_CLI_CONFIG_FILE="+configFile,
		// Relative, so that path.module of a fetched module is the same in every run.
		"TF_DATA_DIR="+dataName,
		"TF_IN_AUTOMATION=1",
		"TF_INPUT=0",
		"CHECKPOINT_DISABLE=1",
	), nil
}

// offlineEnvironment lets the tool find its providers in the cache and nowhere else.
func (c *container) offlineEnvironment() ([]string, error) {
	file, err := c.writeCLIConfig(fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %s\n  }\n}\n",
		quoteHCL(c.cfg.Paths.pluginCache())))
	if err != nil {
		return nil, err
	}
	return c.toolEnvironment(file)
}

func (c *container) writeCLIConfig(installation string) (string, error) {
	file := filepath.Join(c.cfg.Paths.Scratch, "cli.tfrc")
	content := "disable_checkpoint = true\n" + installation
	if err := os.WriteFile(file, []byte(content), 0o640); err != nil {
		return "", fmt.Errorf("writing the tool's configuration: %w", err)
	}
	return file, nil
}
