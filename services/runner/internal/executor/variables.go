package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"magosproject.io/services/runner/internal/executor/tfvars"
	"magosproject.io/services/runner/internal/runspec"
)

const (
	// environmentLimit is what the kernel takes as one string of an environment, its end included.
	environmentLimit = 128 << 10
	// maxVariable is more than a Secret or a ConfigMap can hold.
	maxVariable = 2 << 20
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

type variable struct {
	name, value string
}

func (v variable) environment() string { return "TF_VAR_" + v.name + "=" + v.value }

// readVariables returns the input variables that have a value. An optional reference that led nowhere has none, and
// then a file of the module may give one.
func (c *container) readVariables() ([]variable, error) {
	var variables []variable
	for i, name := range c.in.Variables {
		if !variableName.MatchString(name) {
			return nil, fmt.Errorf("reading variable %q: that is no name of a variable", name)
		}
		// Kubernetes makes these files links into a folder of its own; only Kubernetes writes here.
		value, err := readLimited(filepath.Join(c.cfg.Paths.Variables, strconv.Itoa(i)), maxVariable)
		if errors.Is(err, fs.ErrNotExist) {
			c.log.Info("an optional variable has no value", "variable", name)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading variable %s: %w", name, err)
		}
		if bytes.IndexByte(value, 0) >= 0 {
			return nil, failf(runspec.ExitToolFailed, reasonPlanFailed, "variable %s holds a NUL byte, which no environment can carry", name)
		}
		variables = append(variables, variable{name, string(value)})
	}
	return variables, nil
}

func readLimited(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return data, err
}

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

// give chooses the way of each variable, and reports those that the module does not declare, about which the tools are
// silent. A value too large for the environment must be typed: in a file, unlike in the environment, a string and what
// merely looks like a list are different things, so only a declared string is certain.
func (c *container) give(variables []variable, declared tfvars.Declared) (given, error) {
	var g given
	large := map[string]string{}
	for _, v := range variables {
		declaredType, isDeclared := declared[v.name]
		entry := v.environment()
		switch {
		case !isDeclared:
			c.log.Warn("the module declares no such variable", "variable", v.name)
			if len(entry) >= environmentLimit {
				continue
			}
		case len(entry) < environmentLimit:
		case declaredType != "string":
			return given{}, failf(runspec.ExitToolFailed, reasonPlanFailed,
				"variable %s has %d bytes; more than %d can only be passed to a variable that is declared with `type = string`", v.name, len(v.value), environmentLimit)
		case !utf8.ValidString(v.value):
			return given{}, failf(runspec.ExitToolFailed, reasonPlanFailed,
				"variable %s has %d bytes; more than %d can only be passed as UTF-8 text, and it is not", v.name, len(v.value), environmentLimit)
		default:
			large[v.name] = v.value
			continue
		}
		g.environment = append(g.environment, entry)
	}
	return g, g.carry(large, c.cfg.Paths.Scratch)
}

// carry puts values into a file in memory. It is JSON, which the tools know by the name of the file alone, and read in
// linear time, unlike their own syntax. The tool inherits it as its first descriptor after the standard ones.
func (g *given) carry(large map[string]string, scratch string) error {
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

// shadow takes the variables out of the module's own files, which would win over the environment.
func (c *container) shadow(checkout *os.Root, ready fetched, variables []variable) error {
	files, err := tfvars.Files(checkout, ready.Module, ready.TfvarsFile)
	if err != nil {
		return err
	}
	names := make([]string, len(variables))
	for i, v := range variables {
		names[i] = v.name
	}
	shadowed, err := tfvars.Shadow(checkout, files, slices.Compact(names))
	if err != nil {
		return fail(runspec.ExitToolFailed, reasonPlanFailed, err)
	}
	for _, s := range shadowed {
		c.log.Info("a VariableSet overrides the value in a file", "variable", s.Name, "file", s.File)
	}
	return nil
}
