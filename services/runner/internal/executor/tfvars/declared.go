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

// Declaration is how a module declares an input variable, as far as it matters for giving it a value.
type Declaration struct {
	// Expression says that the tools take a value from the environment as an expression of their language. Where it is
	// false, as for a string, a number, a bool and a variable without a type, they take it as it is.
	Expression bool
	// Sensitive says that the tools keep the value out of what they print, Ephemeral that they keep it out of plan and state.
	Sensitive, Ephemeral bool
}

// Declared maps the names of a module's input variables to their declarations.
type Declared map[string]Declaration

// Declarations reads the module in the folder module of the checkout as engine, Terraform or OpenTofu, does. A file that
// cannot be parsed is left to the tool, which says so better; what it declares is not found then.
func Declarations(checkout *os.Root, module, engine string) (Declared, error) {
	declared := Declared{}
	err := eachFile(checkout, module, engine, func(_ string, file *hcl.File, _ hcl.Diagnostics) error {
		if file != nil {
			declared.add(file.Body)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return declared, nil
}

// eachFile calls do for every file of a module's configuration, with what the parser found wrong in it.
func eachFile(checkout *os.Root, module, engine string, do func(name string, file *hcl.File, wrong hcl.Diagnostics) error) error {
	entries, err := fs.ReadDir(checkout.FS(), module)
	if err != nil {
		return fmt.Errorf("listing the module: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	parser := hclparse.NewParser()
	for _, name := range configFiles(names, engine) {
		data, err := checkout.ReadFile(path.Join(module, name))
		if err != nil {
			return fmt.Errorf("reading the module: %w", err)
		}
		parse := parser.ParseHCL
		if strings.HasSuffix(name, ".json") {
			parse = parser.ParseJSON
		}
		file, wrong := parse(data, name)
		if err := do(path.Join(module, name), file, wrong); err != nil {
			return err
		}
	}
	return nil
}

func (d Declared) add(body hcl.Body) {
	content, _, _ := body.PartialContent(&hcl.BodySchema{
		Blocks: []hcl.BlockHeaderSchema{{Type: "variable", LabelNames: []string{"name"}}},
	})
	for _, block := range content.Blocks {
		attributes, _, _ := block.Body.PartialContent(&hcl.BodySchema{
			Attributes: []hcl.AttributeSchema{{Name: "type"}, {Name: "sensitive"}, {Name: "ephemeral"}},
		})
		// An override file may repeat some of it and leave out the rest.
		declaration := d[block.Labels[0]]
		if attribute, found := attributes.Attributes["type"]; found {
			declaration.Expression = !isPrimitive(attribute.Expr)
		}
		if attribute, found := attributes.Attributes["sensitive"]; found {
			declaration.Sensitive = isTrue(attribute.Expr)
		}
		if attribute, found := attributes.Attributes["ephemeral"]; found {
			declaration.Ephemeral = isTrue(attribute.Expr)
		}
		d[block.Labels[0]] = declaration
	}
}

// isPrimitive also knows the quoted types of old modules.
func isPrimitive(expression hcl.Expression) bool {
	word := hcl.ExprAsKeyword(expression)
	if word == "" {
		if value, diagnostics := expression.Value(nil); !diagnostics.HasErrors() && value.Type().FriendlyName() == "string" && value.IsKnown() && !value.IsNull() {
			word = value.AsString()
		}
	}
	return word == "string" || word == "number" || word == "bool"
}

func isTrue(expression hcl.Expression) bool {
	value, diagnostics := expression.Value(nil)
	return !diagnostics.HasErrors() && value.IsKnown() && !value.IsNull() && value.Type().FriendlyName() == "bool" && value.True()
}

// configFiles picks the files of the module out of names, in the order in which they count: override files come last.
// Only OpenTofu reads .tofu files, and then not the .tf file of the same name.
func configFiles(names []string, engine string) []string {
	isOpenTofu := engine == "OpenTofu"
	var primary, override []string
	for _, name := range names {
		base, extension, isConfig := splitConfig(name)
		ofTofu := strings.HasPrefix(extension, ".tofu")
		switch {
		case !isConfig || isIgnored(name) || ofTofu && !isOpenTofu:
		case isOpenTofu && !ofTofu && slices.Contains(names, base+strings.Replace(extension, ".tf", ".tofu", 1)):
		case base == "override" || strings.HasSuffix(base, "_override"):
			override = append(override, name)
		default:
			primary = append(primary, name)
		}
	}
	slices.Sort(primary)
	slices.Sort(override)
	return append(primary, override...)
}

func splitConfig(name string) (base, extension string, isConfig bool) {
	for _, extension := range []string{".tf.json", ".tofu.json", ".tf", ".tofu"} {
		if base, found := strings.CutSuffix(name, extension); found {
			return base, extension, true
		}
	}
	return "", "", false
}

// isIgnored knows what editors leave behind.
func isIgnored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
}
