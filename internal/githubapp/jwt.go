package githubapp

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"magosproject.io/internal/repocreds"
)

const (
	// backdate allows for a clock that is ahead of GitHub's, which refuses what was issued in the future.
	backdate = time.Minute
	// lifetime: GitHub refuses more than ten minutes from issue to end.
	lifetime = 9 * time.Minute
)

// sign makes the JWT (RS256) by which an app says who it is.
func sign(app *repocreds.GitHubApp, now time.Time) (string, error) {
	claims, err := json.Marshal(map[string]any{"iss": app.AppID, "iat": now.Add(-backdate).Unix(), "exp": now.Add(lifetime - backdate).Unix()})
	if err != nil {
		return "", fmt.Errorf("encoding the claims: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(claims)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, app.PrivateKey, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("signing with the key of the app: %w", err)
	}
	return signed + "." + encode(signature), nil
}
