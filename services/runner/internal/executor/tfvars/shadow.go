// Package tfvars takes out of a module's own variable files what a VariableSet decides: the tools would let the files
// win over the environment.
package tfvars

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Shadowed is a variable that a file defines and a VariableSet overrides.
type Shadowed struct {
	// File, relative to the checkout, and the Name in it.
	File, Name string
}

// Files returns the files in the folder module of the checkout that the tools read by themselves, and the one called
// named, if that is not empty; all relative to the checkout.
func Files(checkout *os.Root, module, named string) ([]string, error) {
	entries, err := fs.ReadDir(checkout.FS(), module)
	if err != nil {
		return nil, fmt.Errorf("listing the module's variable files: %w", err)
	}
	var files []string
	for _, entry := range entries {
		name := entry.Name()
		if name == "terraform.tfvars" || name == "terraform.tfvars.json" ||
			strings.HasSuffix(name, ".auto.tfvars") || strings.HasSuffix(name, ".auto.tfvars.json") {
			files = append(files, path.Join(module, name))
		}
	}
	if named != "" && !slices.Contains(files, named) {
		files = append(files, named)
	}
	return files, nil
}

// Shadow rewrites files without the variables called names, and says which it took out. A link is replaced by a file:
// what it points to may belong to another module.
func Shadow(checkout *os.Root, files, names []string) ([]Shadowed, error) {
	var shadowed []Shadowed
	for _, file := range files {
		data, err := checkout.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading variable file %s: %w", file, err)
		}
		rewrite := rewriteHCL
		if strings.HasSuffix(file, ".json") {
			rewrite = rewriteJSON
		}
		rest, removed, err := rewrite(data, file, names)
		if err != nil {
			return nil, err
		}
		if len(removed) == 0 {
			continue
		}
		for _, name := range removed {
			shadowed = append(shadowed, Shadowed{File: file, Name: name})
		}
		if err := replace(checkout, file, rest); err != nil {
			return nil, fmt.Errorf("rewriting variable file %s: %w", file, err)
		}
	}
	return shadowed, nil
}

// Defined lists the variables that a file defines, by name.
func Defined(checkout *os.Root, file string) ([]string, error) {
	data, err := checkout.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading variable file %s: %w", file, err)
	}
	if strings.HasSuffix(file, ".json") {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(data, &members); err != nil {
			return nil, fmt.Errorf("reading variable file %s: %w", file, err)
		}
		return slices.Sorted(maps.Keys(members)), nil
	}
	parsed, diagnostics := hclwrite.ParseConfig(data, file, hcl.InitialPos)
	if diagnostics.HasErrors() {
		return nil, fmt.Errorf("reading variable file %s: %w", file, diagnostics)
	}
	return slices.Sorted(maps.Keys(parsed.Body().Attributes())), nil
}

func replace(checkout *os.Root, file string, data []byte) error {
	if err := checkout.Remove(file); err != nil {
		return err
	}
	f, err := checkout.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

func rewriteHCL(data []byte, file string, names []string) (rest []byte, removed []string, err error) {
	parsed, diagnostics := hclwrite.ParseConfig(data, file, hcl.InitialPos)
	if diagnostics.HasErrors() {
		return nil, nil, fmt.Errorf("reading variable file %s: %w", file, diagnostics)
	}
	for _, name := range names {
		if parsed.Body().RemoveAttribute(name) != nil {
			removed = append(removed, name)
		}
	}
	return parsed.Bytes(), removed, nil
}

func rewriteJSON(data []byte, file string, names []string) (rest []byte, removed []string, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, nil, fmt.Errorf("reading variable file %s: %w", file, err)
	}
	for _, name := range names {
		if _, found := members[name]; found {
			delete(members, name)
			removed = append(removed, name)
		}
	}
	rest, err = json.MarshalIndent(members, "", "  ")
	if err != nil {
		return nil, nil, fmt.Errorf("writing variable file %s: %w", file, err)
	}
	return rest, removed, nil
}
