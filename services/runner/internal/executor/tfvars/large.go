package tfvars

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// JSON returns what value is to a variable declared as d, as a member of a .tfvars.json file. In the environment the tools
// take the type from the declaration; in a file a string and what merely looks like a list are different things. The
// errors hold nothing of the value.
func (d Declaration) JSON(value string) (json.RawMessage, error) {
	if !utf8.ValidString(value) {
		return nil, fmt.Errorf("it is no UTF-8 text")
	}
	if !d.Expression {
		return json.Marshal(value)
	}
	if content, ok := literalJSON(value); ok {
		return content, nil
	}
	expression, diagnostics := hclsyntax.ParseExpression([]byte(value), "value", hcl.InitialPos)
	if diagnostics.HasErrors() {
		return nil, withoutValue(diagnostics)
	}
	evaluated, diagnostics := expression.Value(nil)
	if diagnostics.HasErrors() {
		return nil, withoutValue(diagnostics)
	}
	content, err := ctyjson.SimpleJSONValue{Value: evaluated}.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("it cannot be written as JSON")
	}
	return content, nil
}

// literalJSON returns value with its escaped templates resolved, if it is JSON without any other: it means the same in the
// tools' language, whose own parser takes time by the square of how much of this there is in one string.
func literalJSON(value string) (content json.RawMessage, ok bool) {
	if !json.Valid([]byte(value)) {
		return nil, false
	}
	// No valid JSON holds these two bytes.
	rest := strings.NewReplacer("$${", "\x01", "%%{", "\x02").Replace(value)
	if strings.Contains(rest, "${") || strings.Contains(rest, "%{") {
		return nil, false
	}
	return json.RawMessage(strings.NewReplacer("\x01", "${", "\x02", "%{").Replace(rest)), true
}

// quotedText is where the parser's summaries could repeat what it read.
var quotedText = regexp.MustCompile(`"[^"]*"`)

// withoutValue says what is wrong with an expression, and where, without its text, which may be a secret.
func withoutValue(diagnostics hcl.Diagnostics) error {
	for _, d := range diagnostics {
		if d.Severity != hcl.DiagError {
			continue
		}
		summary := quotedText.ReplaceAllString(d.Summary, `"…"`)
		if d.Subject != nil {
			return fmt.Errorf("%s in line %d, column %d", summary, d.Subject.Start.Line, d.Subject.Start.Column)
		}
		return fmt.Errorf("%s", summary)
	}
	return nil
}
