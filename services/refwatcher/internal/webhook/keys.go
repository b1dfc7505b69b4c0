package webhook

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// minKey is the shortest key in bytes that is used: a shorter one can be guessed.
const minKey = 16

// Keys are the values of a Secret that is mounted into a folder. Each is a key that every provider's webhooks may use, so that several servers and teams
// have their own, and an old key and its successor hold side by side. The zero value has none.
type Keys struct {
	// Folder is read for each request: the kubelet exchanges what is in it when the Secret changes.
	Folder string
}

// Read returns the keys, and joins what is wrong with those that are not used, never saying what they are.
func (k Keys) Read() ([][]byte, error) {
	entries, err := os.ReadDir(k.Folder)
	if err != nil {
		return nil, fmt.Errorf("reading the keys of webhooks: %w", err)
	}
	var keys [][]byte
	var errs []error
	for _, entry := range entries {
		// The kubelet keeps the files proper in folders that begin with two dots.
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(k.Folder, entry.Name()))
		if err != nil {
			errs = append(errs, fmt.Errorf("reading the keys of webhooks: %w", err))
			continue
		}
		key := bytes.TrimRight(content, "\r\n")
		if len(key) < minKey {
			errs = append(errs, fmt.Errorf("the key %s of webhooks is not used: it has %d bytes, and at least %d are needed", entry.Name(), len(key), minKey))
			continue
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		errs = append(errs, errors.New("there is no key for webhooks: the Secret that refwatcher.webhook.secretName names does not exist or is empty"))
	}
	return keys, errors.Join(errs...)
}
