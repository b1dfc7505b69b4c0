package toolchain

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

func pastTime() time.Time { return time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) }

func newKey(t *testing.T, config *packet.Config) (signer *openpgp.Entity, public string) {
	t.Helper()
	signer, err := openpgp.NewEntity("test", "", "test@example.com", config)
	must(t, err)
	var text bytes.Buffer
	w, err := armor.Encode(&text, openpgp.PublicKeyType, nil)
	must(t, err)
	must(t, signer.Serialize(w))
	must(t, w.Close())
	return signer, text.String()
}

// site serves a release of tofu 1.2.3 whose SHA256SUMS signer has signed, and trusts keys.
func site(t *testing.T, signer *openpgp.Entity, config *packet.Config, keys string) (folder string, sites map[string]Site) {
	t.Helper()
	folder = filepath.Join(mirror(t), "opentofu")
	sums := filepath.Join(folder, "1.2.3", "tofu_1.2.3_SHA256SUMS")
	if signer != nil {
		content, err := os.ReadFile(sums)
		must(t, err)
		var signature bytes.Buffer
		must(t, openpgp.DetachSign(&signature, signer, bytes.NewReader(content), config))
		must(t, os.WriteFile(sums+".gpgsig", signature.Bytes(), 0o600))
	}
	server := httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(server.Close)
	return folder, map[string]Site{"opentofu": {Release: func(v string) string { return server.URL + "/" + v }, Signature: ".gpgsig", Keys: keys}}
}

func TestTheOfficialSiteHasToSignItsChecksums(t *testing.T) {
	ours, public := newKey(t, nil)
	others, _ := newKey(t, nil)
	for name, c := range map[string]struct {
		signer *openpgp.Entity
		change func(folder string)
		says   string
	}{
		"signed":           {ours, nil, ""},
		"not signed":       {nil, nil, "signature of SHA256SUMS"},
		"by somebody else": {others, nil, "verifying the signature"},
		"changed afterward": {ours, func(folder string) {
			name := filepath.Join(folder, "1.2.3", "tofu_1.2.3_SHA256SUMS")
			data, err := os.ReadFile(name)
			must(t, err)
			must(t, os.WriteFile(name, append(data, '\n'), 0o600))
		}, "verifying the signature"},
	} {
		folder, sites := site(t, c.signer, nil, public)
		if c.change != nil {
			c.change(folder)
		}
		s := source(t, "")
		s.Sites = sites
		tool, err := s.Acquire(t.Context(), OpenTofu, "1.2.3")
		if c.says == "" && (err != nil || tool.Path != filepath.Join(s.Volume, "opentofu", "1.2.3", "tofu")) {
			t.Errorf("%s: %+v, %v", name, tool, err)
		}
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "127.0.0.1")) {
			t.Errorf("%s: %v; want %q and the place", name, err, c.says)
		}
	}
}

// A key that has expired since proves an old release as well as before.
func TestAReleaseOutlivesTheKeyThatSignedIt(t *testing.T) {
	config := &packet.Config{Time: pastTime, KeyLifetimeSecs: 60}
	signer, public := newKey(t, config)
	_, sites := site(t, signer, config, public)
	s := source(t, "")
	s.Sites = sites
	if _, err := s.Acquire(t.Context(), OpenTofu, "1.2.3"); err != nil {
		t.Error(err)
	}
}

func TestAMirrorComesBeforeTheSiteAndTheSiteFillsItsGaps(t *testing.T) {
	signer, public := newKey(t, nil)
	_, sites := site(t, signer, nil, public)
	s := source(t, t.TempDir())
	s.Sites = sites
	if _, err := s.Acquire(t.Context(), OpenTofu, "1.2.3"); err != nil {
		t.Errorf("an empty mirror: %v", err)
	}
	// The mirror has it, and nobody asks the site, which would fail.
	s = source(t, mirror(t))
	asked := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the site was asked") }))
	defer asked.Close()
	s.Sites = map[string]Site{"opentofu": {Release: func(string) string { return asked.URL }}}
	if _, err := s.Acquire(t.Context(), OpenTofu, "1.2.3"); err != nil {
		t.Errorf("a full mirror: %v", err)
	}
}

func TestTheKeysOfTheOfficialSitesAreTheirs(t *testing.T) {
	for folder, want := range map[string]string{
		"terraform": "C874011F0AB405110D02105534365D9472D7468F", "opentofu": "E3E6E43D84CB852EADB0051D0C0AF313E5FD9F80",
	} {
		keys, err := openpgp.ReadArmoredKeyRing(strings.NewReader(OfficialSites()[folder].Keys))
		if err != nil || len(keys) != 1 || fmt.Sprintf("%X", keys[0].PrimaryKey.Fingerprint) != want {
			t.Errorf("%s: %v, %v; want %s", folder, keys, err, want)
		}
	}
	for _, engine := range []Engine{Terraform, OpenTofu} {
		if url := OfficialSites()[engine.Folder].Release("1.2.3"); !strings.HasPrefix(url, "https://") || !strings.Contains(url, "1.2.3") {
			t.Errorf("%s is at %s", engine.Folder, url)
		}
	}
}

func TestTwoVersionsLiveOnOneVolume(t *testing.T) {
	folder := mirror(t)
	second := filepath.Join(folder, "opentofu", "1.2.4")
	must(t, os.CopyFS(second, os.DirFS(filepath.Join(folder, "opentofu", "1.2.3"))))
	for _, suffix := range []string{"_linux_amd64.zip", "_SHA256SUMS"} {
		must(t, os.Rename(filepath.Join(second, "tofu_1.2.3"+suffix), filepath.Join(second, "tofu_1.2.4"+suffix)))
	}
	sums := filepath.Join(second, "tofu_1.2.4_SHA256SUMS")
	data, err := os.ReadFile(sums)
	must(t, err)
	must(t, os.WriteFile(sums, bytes.ReplaceAll(data, []byte("1.2.3"), []byte("1.2.4")), 0o600))

	s := source(t, folder)
	for _, version := range []string{"1.2.3", "1.2.4", "1.2.3"} {
		tool, err := s.Acquire(t.Context(), OpenTofu, version)
		if err != nil || tool.Path != filepath.Join(s.Volume, "opentofu", version, "tofu") {
			t.Fatalf("%s: %+v, %v", version, tool, err)
		}
		// From now on the mirror is not needed.
		must(t, os.RemoveAll(filepath.Join(folder, "opentofu", version)))
	}
}
