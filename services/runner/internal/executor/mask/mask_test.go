package mask

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
)

const pem = "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn\nq2p7f0aVvcAab+/kx3Rmk1uK1c4Vh2\nxY=\n-----END KEY-----\n"

func TestKnownFormsAreMasked(t *testing.T) {
	quoted, err := json.Marshal("p\"a<ss\\w\nord")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		values []string
		text   string
		want   string
	}{
		"raw":                      {[]string{"hunter22"}, "pw=hunter22;", "pw=(masked);"},
		"shorter than six is kept": {[]string{"m", "1", "true", "", "12345"}, "m 1 true 12345", "m 1 true 12345"},
		"six is masked":            {[]string{"123456"}, "a123456b", "a(masked)b"},
		"json":                     {[]string{"p\"a<ss\\w\nord"}, "x" + string(quoted) + "y", `x"(masked)"y`},
		"json without html escapes": {[]string{"p\"a<ss\\w\nord"}, `x"p\"a<ss\\w\nord"y`,
			`x"(masked)"y`},
		"json inside hcl":               {[]string{`hunter"22&x`}, `"\"hunter\\\"22\\u0026x\""`, `"\"(masked)\""`},
		"hcl":                           {[]string{"abc${x}def"}, `"abc$${x}def"`, `"(masked)"`},
		"base64":                        {[]string{"hunter22!"}, base64.StdEncoding.EncodeToString([]byte("hunter22!")), Mark},
		"url":                           {[]string{"a b/c+d&e"}, "?q=" + url.QueryEscape("a b/c+d&e"), "?q=" + Mark},
		"long line of a key":            {[]string{pem}, "err: q2p7f0aVvcAab+/kx3Rmk1uK1c4Vh2!", "err: " + Mark + "!"},
		"whole key":                     {[]string{pem}, "a" + pem + "b", "a" + Mark + "b"},
		"short line of a key is kept":   {[]string{pem}, "xY=", "xY="},
		"secret inside another":         {[]string{"hunter", "my-hunter-22"}, "my-hunter-22 hunter", Mark + " " + Mark},
		"overlapping":                   {[]string{"abcdef", "defghi"}, "1abcdefghi2", "1" + Mark + "2"},
		"twice in a row":                {[]string{"abcdef"}, "abcdefabcdef", Mark + Mark},
		"string inside an object":       {[]string{`{"user":"u","password":"hunter22"}`}, "pw hunter22", "pw " + Mark},
		"string inside an hcl list":     {[]string{`["hunter22", "x"]`}, "pw hunter22", "pw " + Mark},
		"beginning of a secret is kept": {[]string{"hunter22"}, "the hunte", "the hunte"},
		"almost, then the real one":     {[]string{"aaaaab"}, "aaaaaaaab", "aaa" + Mark},
		"base64 of what holds it, two bytes before":  {[]string{"hunter22!"}, base64.StdEncoding.EncodeToString([]byte("u:hunter22!")), "dTp" + Mark + "E="},
		"base64 of what holds it, with more":         {[]string{"hunter22!"}, base64.StdEncoding.EncodeToString([]byte("u1:hunter22!xx")), "dTE6" + Mark + "eHg="},
		"base64 of what holds it, four bytes before": {[]string{"hunter22!"}, base64.StdEncoding.EncodeToString([]byte("abcdhunter22!tail")), "YWJjZG" + Mark + "XRhaWw="},
		"base64 for URLs":                            {[]string{"???>>>~~~"}, base64.URLEncoding.EncodeToString([]byte("???>>>~~~")), Mark},
		"base64 in lines":                            {[]string{pem}, lines(base64.StdEncoding.EncodeToString([]byte(pem)), 76), strings.Repeat(Mark+"\n", 2)},
		"base64 in short lines":                      {[]string{pem}, lines(base64.StdEncoding.EncodeToString([]byte(pem)), 64), strings.Repeat(Mark+"\n", 3)},
		"hex":                                        {[]string{"hunter22"}, "0x68756e7465723232", "0x" + Mark},
		"hex in capitals":                            {[]string{"kkkkkkk/"}, "6B6B6B6B6B6B6B2F", Mark},
		"url in small letters":                       {[]string{"a b/c+d&e"}, "a+b%2fc%2bd%26e", Mark},
		"json in ASCII":                              {[]string{"pässwörd😀"}, `p\u00e4ssw\u00f6rd\ud83d\ude00`, Mark},
		"in a shell's quotes":                        {[]string{"hunter'22"}, `echo 'hunter'\''22'`, "echo '" + Mark + "'"},
		"broken at a blank":                          {[]string{"correct horse battery"}, "is correct horse\nbattery, says", "is " + Mark + ", says"},
		"words of it alone are kept":                 {[]string{"correct horse battery"}, "horse battery", "horse battery"},
		"trailing newline of the secret":             {[]string{"hunter22\n"}, "pw=hunter22;", "pw=" + Mark + ";"},
	} {
		if got := NewForms(c.values).String(c.text); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func lines(text string, width int) string {
	var out strings.Builder
	for ; len(text) > width; text = text[width:] {
		out.WriteString(text[:width] + "\n")
	}
	return out.String() + text + "\n"
}

// TestShortValuesHideNothing: what is too short to be masked must not become long enough in another form.
func TestShortValuesHideNothing(t *testing.T) {
	for _, value := range []string{"", "a", "1", "on", "true", "a\nb", "12345", "é", "\"\"", "<&>", "a b c"} {
		forms := NewForms([]string{value})
		if len(forms.byKey) > 0 {
			t.Errorf("%q has forms: %v", value, forms.byKey)
		}
	}
}

func TestCutsInTheStreamChangeNothing(t *testing.T) {
	forms := NewForms([]string{"hunter22", "aaaaab", pem, "abcdef", "defghi", strings.Repeat("long", 500)})
	text := "x hunter22 aaaaaaab abcdefghi\x00\xff" + pem + strings.Repeat("long", 700) + "hunter2 hunter22hunte"
	want := forms.String(text)
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var out strings.Builder
		w := NewWriter(&out, forms)
		for rest := text; rest != ""; {
			n := 1 + random.IntN(min(40, len(rest)))
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Fatalf("got %q, want %q", out.String(), want)
		}
	}
}

// A container has little memory, and a Secret may have a megabyte.
func TestALargeValueIsMaskedAtAFewTimesItsSize(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var words, digits strings.Builder
	for range 5_000 {
		fmt.Fprintf(&words, "%d ", random.Uint64())
		fmt.Fprintf(&digits, "%d", random.Uint64())
	}
	for name, value := range map[string]string{"words": words.String(), "no blanks": digits.String()} {
		forms, total := NewForms([]string{value}), 0
		for _, same := range forms.byKey {
			for _, form := range same {
				total += len(form)
			}
		}
		if total > 32*len(value) {
			t.Errorf("%s: the forms of %d bytes have %d", name, len(value), total)
		}
		if got := forms.String("a" + value + "b" + base64.StdEncoding.EncodeToString([]byte(value))); strings.Contains(got, value[:100]) || len(got) > 200 {
			t.Errorf("%s: got %d bytes, %.100q", name, len(got), got)
		}
	}
}

func TestLittleIsHeldBack(t *testing.T) {
	var out strings.Builder
	w := NewWriter(&out, NewForms([]string{"hunter22"}))
	for range 1000 {
		if _, err := w.Write([]byte(strings.Repeat("x", 1000))); err != nil {
			t.Fatal(err)
		}
	}
	if out.Len() != 1_000_000 || cap(w.pending) > 1<<16 {
		t.Errorf("%d bytes came through, %d are held", out.Len(), cap(w.pending))
	}
}
