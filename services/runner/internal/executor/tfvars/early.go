package tfvars

import (
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Plain refuses a module for which the tool would evaluate something when it fetches modules: all sources and versions,
// and what providers are made for, have to be literals, and all sources folders of the checkout, so that the whole tree of
// modules is known. What it cannot read it refuses too.
func Plain(checkout *os.Root, module, engine string) error {
	seen, next := map[string]bool{}, []string{module}
	for len(next) > 0 {
		folder := next[0]
		next = next[1:]
		if seen[folder] {
			continue
		}
		seen[folder] = true
		err := eachFile(checkout, folder, engine, func(name string, file *hcl.File, wrong hcl.Diagnostics) error {
			if file == nil || wrong.HasErrors() {
				return fmt.Errorf("%s cannot be read: %w", name, wrong)
			}
			sources, err := plainSources(file.Body)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			for _, source := range sources {
				next = append(next, path.Join(folder, source))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func plainSources(body hcl.Body) ([]string, error) {
	content, _, wrong := body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "module", LabelNames: []string{"name"}}, {Type: "provider", LabelNames: []string{"name"}},
	}})
	if wrong.HasErrors() {
		return nil, wrong
	}
	var sources []string
	for _, block := range content.Blocks {
		where := block.Type + " " + block.Labels[0]
		attributes, _, wrong := block.Body.PartialContent(&hcl.BodySchema{
			Attributes: []hcl.AttributeSchema{{Name: "source"}, {Name: "version"}, {Name: "for_each"}},
		})
		if wrong.HasErrors() {
			return nil, fmt.Errorf("%s: %w", where, wrong)
		}
		for name, attribute := range attributes.Attributes {
			if block.Type == "module" && name == "for_each" {
				continue
			}
			// Not nil: in JSON templates would pass for plain text.
			value, wrong := attribute.Expr.Value(&hcl.EvalContext{})
			if wrong.HasErrors() {
				return nil, fmt.Errorf("%s: its %s is no plain text", where, name)
			}
			if block.Type == "provider" || name != "source" {
				continue
			}
			if value.IsNull() || !value.IsKnown() || value.Type() != cty.String {
				return nil, fmt.Errorf("%s: its source is no plain text", where)
			}
			source := value.AsString()
			if !strings.HasPrefix(source, "./") && !strings.HasPrefix(source, "../") {
				return nil, fmt.Errorf("%s: its source is no folder of the repository", where)
			}
			sources = append(sources, source)
		}
	}
	return sources, nil
}
