package mask

import (
	"encoding/base64"
	"encoding/json"
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
		"json inside hcl":                {[]string{`hunter"22&x`}, `"\"hunter\\\"22\\u0026x\""`, `"\"(masked)\""`},
		"hcl":                            {[]string{"abc${x}def"}, `"abc$${x}def"`, `"(masked)"`},
		"base64":                         {[]string{"hunter22!"}, base64.StdEncoding.EncodeToString([]byte("hunter22!")), Mark},
		"url":                            {[]string{"a b/c+d&e"}, "?q=" + url.QueryEscape("a b/c+d&e"), "?q=" + Mark},
		"long line of a key":             {[]string{pem}, "err: q2p7f0aVvcAab+/kx3Rmk1uK1c4Vh2!", "err: " + Mark + "!"},
		"whole key":                      {[]string{pem}, "a" + pem + "b", "a" + Mark + "b"},
		"short line of a key is kept":    {[]string{pem}, "xY=", "xY="},
		"secret inside another":          {[]string{"hunter", "my-hunter-22"}, "my-hunter-22 hunter", Mark + " " + Mark},
		"overlapping":                    {[]string{"abcdef", "defghi"}, "1abcdefghi2", "1" + Mark + "2"},
		"twice in a row":                 {[]string{"abcdef"}, "abcdefabcdef", Mark + Mark},
		"string inside an object":        {[]string{`{"user":"u","password":"hunter22"}`}, "pw hunter22", "pw " + Mark},
		"string inside an hcl list":      {[]string{`["hunter22", "x"]`}, "pw hunter22", "pw " + Mark},
		"beginning of a secret is kept":  {[]string{"hunter22"}, "the hunte", "the hunte"},
		"almost, then the real one":      {[]string{"aaaaab"}, "aaaaaaaab", "aaa" + Mark},
		"trailing newline of the secret": {[]string{"hunter22\n"}, "pw=hunter22;", "pw=" + Mark + ";"},
	} {
		if got := NewForms(c.values).String(c.text); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
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
