package toolchain

import (
	"bytes"
	"context"
	_ "embed" // The keys of the official sites.
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
)

// Site is where the makers of an engine publish it, and how they prove that a release is theirs.
type Site struct {
	// Release returns the URL of the folder of a version.
	Release func(version string) string
	// Signature is what follows the name of SHA256SUMS in that of its detached OpenPGP signature.
	Signature string
	// Keys are the armored public keys that may sign.
	Keys string
}

// The public keys, as the makers publish them: https://www.hashicorp.com/security and https://get.opentofu.org/opentofu.asc.
var (
	//go:embed keys/hashicorp.asc
	hashicorpKeys string
	//go:embed keys/opentofu.asc
	opentofuKeys string
)

// OfficialSites are the sites of the makers, by engine.
func OfficialSites() map[string]Site {
	return map[string]Site{
		Terraform.Folder: {
			Release:   func(v string) string { return "https://releases.hashicorp.com/terraform/" + v },
			Signature: ".sig", Keys: hashicorpKeys,
		},
		OpenTofu.Folder: {
			Release:   func(v string) string { return "https://github.com/opentofu/opentofu/releases/download/v" + v },
			Signature: ".gpgsig", Keys: opentofuKeys,
		},
	}
}

// release is one place where a version may be.
type release struct {
	// url of its folder, or the folder itself.
	url string
	// site that has to have signed it; nil for a mirror, whose owner answers for what it holds.
	site *Site
}

const maxSignature = 1 << 20

// checkSignature proves that the site's owner signed sums, which came from file.
func (s Source) checkSignature(ctx context.Context, site *Site, file string, sums []byte) error {
	body, err := s.open(ctx, file+site.Signature)
	if err != nil {
		return fmt.Errorf("getting the signature of SHA256SUMS: %w", err)
	}
	defer func() { _ = body.Close() }()
	signature, err := io.ReadAll(io.LimitReader(body, maxSignature))
	if err != nil {
		return fmt.Errorf("getting the signature of SHA256SUMS: %w", err)
	}
	keys, err := openpgp.ReadArmoredKeyRing(strings.NewReader(site.Keys))
	if err != nil {
		return fmt.Errorf("reading the keys of the official site: %w", err)
	}
	_, err = openpgp.CheckDetachedSignature(keys, bytes.NewReader(sums), bytes.NewReader(signature), nil)
	// A release stays good when the key that signed it expires later; that of a revoked key does not.
	if err != nil && !errors.Is(err, pgperrors.ErrKeyExpired) {
		return fmt.Errorf("verifying the signature of SHA256SUMS: %w", err)
	}
	return nil
}
