package tfvars

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
)

// Declared maps the input variables of a module to their types, as far as those are a single word: "string", "number",
// "bool", or "" for everything else.
type Declared map[string]string

// Declarations reads the module in the folder module of the checkout. A file that cannot be parsed is left to the tool,
// which says so better; what it declares is not found then.
func Declarations(checkout *os.Root, module string) (Declared, error) {
	entries, err := fs.ReadDir(checkout.FS(), module)
	if err != nil {
		return nil, fmt.Errorf("listing the module: %w", err)
	}
	declared := Declared{}
	parser := hclparse.NewParser()
	for _, entry := range entries {
		if !isConfig(entry.Name()) {
			continue
		}
		data, err := checkout.ReadFile(path.Join(module, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading the module: %w", err)
		}
		parse := parser.ParseHCL
		if strings.HasSuffix(entry.Name(), ".json") {
			parse = parser.ParseJSON
		}
		if file, _ := parse(data, entry.Name()); file != nil {
			declared.add(file.Body)
		}
	}
	return declared, nil
}

func (d Declared) add(body hcl.Body) {
	content, _, _ := body.PartialContent(&hcl.BodySchema{
		Blocks: []hcl.BlockHeaderSchema{{Type: "variable", LabelNames: []string{"name"}}},
	})
	for _, block := range content.Blocks {
		attributes, _, _ := block.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "type"}}})
		word := ""
		if attribute, found := attributes.Attributes["type"]; found {
			word = hcl.ExprAsKeyword(attribute.Expr)
		}
		// An override file may name the variable without its type.
		if word != "" || d[block.Labels[0]] == "" {
			d[block.Labels[0]] = word
		}
	}
}

func isConfig(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") || strings.HasSuffix(name, "~") {
		return false
	}
	return slices.ContainsFunc([]string{".tf", ".tf.json", ".tofu", ".tofu.json"}, func(suffix string) bool {
		return strings.HasSuffix(name, suffix)
	})
}
