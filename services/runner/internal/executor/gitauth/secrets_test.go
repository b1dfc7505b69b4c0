package gitauth

import (
	"os"
	"path/filepath"
	"testing"

	"magosproject.io/internal/repocreds"
)

// laidOut is a folder as the kubelet makes it, and what changes all Secrets of it at once.
func laidOut(t *testing.T) (folder string, change func(version, url, password string)) {
	t.Helper()
	folder = t.TempDir()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Symlink(filepath.Join("..data", "git"), filepath.Join(folder, "git")))
	return folder, func(version, url, password string) {
		data, next, old := filepath.Join(folder, "..data"), filepath.Join(folder, "..next"), present(folder)
		must(os.MkdirAll(filepath.Join(folder, version, "git"), 0o750))
		must(os.WriteFile(filepath.Join(folder, version, "git", repocreds.KeyRepoURL), []byte(url), 0o600))
		must(os.WriteFile(filepath.Join(folder, version, "git", repocreds.KeyPassword), []byte(password), 0o600))
		must(os.Symlink(version, next))
		must(os.Rename(next, data))
		if old != folder {
			must(os.RemoveAll(old))
		}
	}
}

// TestACredentialIsReadInOneVersion: the password for one host must never meet the URL of another.
func TestACredentialIsReadInOneVersion(t *testing.T) {
	folder, change := laidOut(t)
	change("..1", "https://one.example", "one")
	reads := 0
	secrets, err := readWhole(folder, func(version string) ([]repocreds.Secret, error) {
		read, err := readVersion(version)
		if reads++; reads == 1 {
			change("..2", "https://two.example", "two")
		}
		return read, err
	})
	if err != nil || len(secrets) != 1 || reads != 2 {
		t.Fatalf("%d Secrets after %d readings, %v; want the one, read again since it changed", len(secrets), reads, err)
	}
	if url, password := string(secrets[0].Data[repocreds.KeyRepoURL]), string(secrets[0].Data[repocreds.KeyPassword]); url != "https://two.example" || password != "two" {
		t.Errorf("%s with %s", url, password)
	}
	if _, err := readWhole(folder, func(version string) ([]repocreds.Secret, error) {
		reads++
		change(filepath.Base(version)+"1", "https://one.example", "one")
		return nil, nil
	}); err == nil {
		t.Error("Secrets that change in every reading were read")
	}
}

func TestSecretsAreReadFromTheVersionThatIsPresent(t *testing.T) {
	folder, change := laidOut(t)
	change("..1", "https://one.example", "one")
	change("..2", "https://two.example", "two")
	secrets, err := readSecrets(folder)
	if err != nil || len(secrets) != 1 || secrets[0].Name != "git" || string(secrets[0].Data[repocreds.KeyPassword]) != "two" {
		t.Errorf("read %v, %v", secrets, err)
	}
	if secrets, err := readSecrets(filepath.Join(folder, "none")); err != nil || secrets != nil {
		t.Errorf("without a folder: %v, %v", secrets, err)
	}
}
