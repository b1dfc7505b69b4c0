package gitauth

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"magosproject.io/internal/repocreds"
)

// maxValue bounds what is read of one key; a Secret as a whole has 1 MiB at most.
const maxValue = 1 << 20

// readings bounds how often Secrets are read that change meanwhile. The kubelet changes them once a minute at most.
const readings = 5

// readSecrets reads the repository Secrets as the kubelet lays them out: <folder>/<Secret>/<key>. One that does not exist
// any more has no folder.
func readSecrets(folder string) ([]repocreds.Secret, error) {
	return readWhole(folder, readVersion)
}

// readWhole reads one version of the Secrets. The kubelet changes them all at once, by letting a link lead elsewhere: what is read across such a change
// could be the password for one host with the URL of another.
func readWhole(folder string, read func(string) ([]repocreds.Secret, error)) ([]repocreds.Secret, error) {
	for range readings {
		version := present(folder)
		secrets, err := read(version)
		if present(folder) == version {
			return secrets, err
		}
	}
	return nil, errors.New("reading repository Secrets: they change while they are read")
}

// present is where the present version of the Secrets lies: the folder itself where nobody changes it.
func present(folder string) string {
	if version, err := filepath.EvalSymlinks(filepath.Join(folder, "..data")); err == nil {
		return version
	}
	return folder
}

func readVersion(folder string) ([]repocreds.Secret, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading repository Secrets: %w", err)
	}
	var secrets []repocreds.Secret
	for _, entry := range entries {
		// Names with a leading dot are the kubelet's own.
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		data, err := readData(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading repository Secret %s: %w", entry.Name(), err)
		}
		if len(data) > 0 {
			secrets = append(secrets, repocreds.Secret{Name: entry.Name(), Data: data})
		}
	}
	return secrets, nil
}

func readData(folder string) (map[string][]byte, error) {
	keys, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{}
	for _, key := range keys {
		name := filepath.Join(folder, key.Name())
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxValue {
			continue
		}
		if data[key.Name()], err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	return data, nil
}
