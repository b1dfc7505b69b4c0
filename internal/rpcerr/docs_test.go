package rpcerr_test

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"testing"

	"magosproject.io/internal/rpcerr"
)

// declaredReasons reads the constants from the source, so that one that Reasons forgets is noticed.
func declaredReasons(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "reasons.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for _, value := range spec.Values {
			if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				reasons = append(reasons, constant.StringVal(constant.MakeFromLiteral(literal.Value, token.STRING, 0)))
			}
		}
		return true
	})
	return reasons
}

func TestReasonsListsEveryConstant(t *testing.T) {
	if got, want := rpcerr.Reasons(), declaredReasons(t); !slices.Equal(got, want) {
		t.Errorf("Reasons() = %v, want %v", got, want)
	}
	shape := regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,62}$`)
	for _, reason := range rpcerr.Reasons() {
		if !shape.MatchString(reason) {
			t.Errorf("%s is not in UPPER_SNAKE_CASE", reason)
		}
	}
}

func TestDocsListExactlyTheReasons(t *testing.T) {
	content, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z0-9_]+)` \\|").FindAllStringSubmatch(string(content), -1) {
		documented = append(documented, row[1])
	}
	want := slices.Sorted(slices.Values(rpcerr.Reasons()))
	if got := slices.Sorted(slices.Values(documented)); !slices.Equal(got, want) {
		t.Errorf("docs/errors.md has %v, want %v", got, want)
	}
}
