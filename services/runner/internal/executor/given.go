package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"magosproject.io/services/runner/internal/executor/tfvars"
	"magosproject.io/services/runner/internal/runspec"
)

const (
	// environmentLimit is what the kernel takes as one string of an environment, its end included.
	environmentLimit = 128 << 10
	// environmentTotal is what all variables together may take of an environment. The kernel gives a program two megabytes
	// for everything that it is started with.
	environmentTotal = 1 << 20
)

// given is how the variables reach the tool.
type given struct {
	environment []string
	// large is a file in memory for what no environment can carry, and largeName a link that leads the tool to it; nil
	// and empty if there is none.
	large     *os.File
	largeName string
}

func (g given) arguments() []string {
	if g.large == nil {
		return nil
	}
	return []string{"-var-file=" + g.largeName}
}

func (g given) files() []*os.File {
	if g.large == nil {
		return nil
	}
	return []*os.File{g.large}
}

func (g given) close() {
	if g.large != nil {
		_ = g.large.Close()
	}
}

// give chooses the way of each variable: the environment as long as it can carry it, else a file in memory. It reports
// those that the module does not declare, about which the tools are silent.
func (c *container) give(variables []variable, declared tfvars.Declared) (given, error) {
	var g given
	total := 0
	large := map[string]json.RawMessage{}
	for _, v := range variables {
		declaration, isDeclared := declared[v.name]
		if !isDeclared {
			c.log.Warn("the module declares no such variable", "variable", v.name)
		}
		entry := v.environment()
		switch fits := len(entry) < environmentLimit && total+len(entry) < environmentTotal; {
		case fits:
			total += len(entry)
			g.environment = append(g.environment, entry)
		case isDeclared:
			content, err := declaration.JSON(v.value)
			if err != nil {
				return given{}, failf(runspec.ExitToolFailed, reasonPlanFailed,
					"variable %s has %d bytes, too much for the environment, and cannot be put into a file: %w", v.name, len(v.value), err)
			}
			large[v.name] = content
		}
	}
	return g, g.carry(large, c.cfg.Paths.Scratch)
}

// carry puts values into a file in memory. It is JSON, which the tools know by the name of the file alone, and read in
// linear time, unlike their own syntax. The tool inherits it as its first descriptor after the standard ones.
func (g *given) carry(large map[string]json.RawMessage, scratch string) error {
	if len(large) == 0 {
		return nil
	}
	content, err := json.Marshal(large)
	if err != nil {
		return fmt.Errorf("writing large variables: %w", err)
	}
	g.largeName = filepath.Join(scratch, "large.tfvars.json")
	if err := os.Symlink("/proc/self/fd/3", g.largeName); err != nil {
		return fmt.Errorf("naming the file of large variables: %w", err)
	}
	g.large, err = inMemory(content)
	return err
}

// inMemory returns a file that has no name in any file system.
func inMemory(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("variables", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a file in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "variables")
	if _, err := file.Write(content); err != nil {
		return nil, errors.Join(fmt.Errorf("filling a file in memory: %w", err), file.Close())
	}
	return file, nil
}
