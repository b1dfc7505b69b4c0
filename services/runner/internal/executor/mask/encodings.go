package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
)

const (
	// maxBreaks bounds in how many places a value is looked for with a line break in it.
	maxBreaks = 64
	// maxWrapped bounds, in bytes, the values that are looked for so: each place costs the value's length, and what is
	// longer would be broken in many places at once.
	maxWrapped = 4 << 10
)

// formsOf lists the texts as which value may be printed.
func formsOf(value string) []string {
	forms := []string{value, strings.TrimSpace(value)}
	forms = append(forms, quoted(value)...)
	forms = append(forms, inURLs(value)...)
	forms = append(forms, hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value))))
	forms = append(forms, inBase64(value)...)
	forms = append(forms, wrapped(value)...)
	if strings.ContainsAny(value, "\r\n") {
		for line := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '\n' || r == '\r' }) {
			if line = strings.TrimSpace(line); len(line) >= minLine {
				forms = append(forms, line, jsonString(line), hclString(line))
			}
		}
	}
	return forms
}

// quoted is value inside the strings of JSON, HCL, Go and the shell.
func quoted(value string) []string {
	inner := jsonString(value)
	forms := []string{
		inner, hclString(value),
		// A string that holds JSON, as jsonencode makes it, is shown escaped once more.
		hclString(inner),
		asciiJSON(inner),
		strings.Trim(strconv.Quote(value), `"`),
		strings.ReplaceAll(value, `'`, `'\''`),
	}
	if escaped, err := json.Marshal(value); err == nil {
		html := string(escaped[1 : len(escaped)-1])
		forms = append(forms, html, hclString(html))
	}
	return forms
}

var percentEscape = regexp.MustCompile(`%[0-9A-F]{2}`)

func inURLs(value string) []string {
	forms := []string{url.QueryEscape(value), url.PathEscape(value)}
	for _, form := range forms {
		forms = append(forms, percentEscape.ReplaceAllStringFunc(form, strings.ToLower))
	}
	return forms
}

// inBase64 is value by itself, in lines as mail and PEM have them, and inside something longer, such as the user:password
// of a header: which characters it makes there depends on how many bytes precede it, by threes. Those that it shares with
// what precedes or follows are not known.
func inBase64(value string) []string {
	var forms []string
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		forms = append(forms, encoding.EncodeToString([]byte(value)))
		for before := range 3 {
			text := encoding.EncodeToString(append(make([]byte, before, before+len(value)), value...))
			first, last := (before*8+5)/6, (before+len(value))*8/6
			if first < last {
				forms = append(forms, text[first:last])
			}
		}
	}
	text := base64.StdEncoding.EncodeToString([]byte(value))
	for _, width := range []int{64, 76} {
		for at := 0; len(text) > width && at < len(text); at += width {
			if line := text[at:min(at+width, len(text))]; len(line) >= minLine {
				forms = append(forms, line)
			}
		}
	}
	return forms
}

// wrapped is a value of several words as the tools print it in an error that fills its line: broken at a blank.
func wrapped(value string) []string {
	if len(value) > maxWrapped {
		return nil
	}
	var forms []string
	for at := range len(value) {
		if value[at] == ' ' && len(forms) < maxBreaks {
			forms = append(forms, value[:at]+"\n"+value[at+1:])
		}
	}
	return forms
}

// jsonString is value inside a JSON string as the tools print it: without HTML escapes.
func jsonString(value string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(out.String(), "\n"), `"`), `"`)
}

// asciiJSON is the inside of a JSON string as programs print it that keep to ASCII.
func asciiJSON(inner string) string {
	var out strings.Builder
	for _, r := range inner {
		switch high, low := utf16.EncodeRune(r); {
		case r < 0x80:
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

var hclEscapes = strings.NewReplacer(
	`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "${", "$${", "%{", "%%{",
)

func hclString(value string) string { return hclEscapes.Replace(value) }
