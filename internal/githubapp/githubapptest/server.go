// Package githubapptest is a server that speaks the part of GitHub's API by which apps get tokens, on loopback, and verifies what it is sent. For tests only.
package githubapptest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server knows one app with one installation.
type Server struct {
	// URL is the base URL of the API.
	URL string
	// AppID and InstallationID that it knows.
	AppID, InstallationID string
	// KeyPEM is the key of the app, as GitHub hands it out.
	KeyPEM string

	now      func() time.Time
	lifetime time.Duration
	key      *rsa.PrivateKey

	mutex  sync.Mutex
	tokens map[string]time.Time
	asked  int
}

// New starts a Server that ends with the test. Tokens last for lifetime by the clock now.
func New(t testing.TB, now func() time.Time, lifetime time.Duration) *Server {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		AppID: "1234", InstallationID: "5678", now: now, lifetime: lifetime, key: key, tokens: map[string]time.Time{},
		KeyPEM: string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Valid reports whether a token was given out and has not expired or been revoked.
func (s *Server) Valid(token string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	expires, given := s.tokens[token]
	return given && s.now().Before(expires)
}

// Revoke takes every token back.
func (s *Server) Revoke() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	clear(s.tokens)
}

// Asked is how many tokens were given out.
func (s *Server) Asked() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.asked
}

// ServeHTTP answers POST /app/installations/<id>/access_tokens.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := s.authenticate(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")); err != nil {
		answer(w, http.StatusUnauthorized, map[string]any{"message": err.Error()})
		return
	}
	if r.Method != http.MethodPost || r.URL.Path != "/app/installations/"+s.InstallationID+"/access_tokens" {
		answer(w, http.StatusNotFound, map[string]any{"message": "Not Found"})
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.asked++
	token := fmt.Sprintf("ghs_%d%s", s.asked, rand.Text())
	s.tokens[token] = s.now().Add(s.lifetime)
	answer(w, http.StatusCreated, map[string]any{"token": token, "expires_at": s.tokens[token].UTC().Format(time.RFC3339), "permissions": map[string]string{"contents": "read"}})
}

// authenticate verifies a JWT as GitHub does.
func (s *Server) authenticate(token string) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return fmt.Errorf("a JSON web token could not be decoded")
	}
	decoded := make([][]byte, 3)
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.DecodeString(part); err != nil {
			return fmt.Errorf("a JSON web token could not be decoded")
		}
	}
	var header struct{ Alg string }
	var claims struct {
		Iss      string
		Iat, Exp int64
	}
	if json.Unmarshal(decoded[0], &header) != nil || header.Alg != "RS256" || json.Unmarshal(decoded[1], &claims) != nil {
		return fmt.Errorf("a JSON web token could not be decoded")
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if rsa.VerifyPKCS1v15(&s.key.PublicKey, crypto.SHA256, sum[:], decoded[2]) != nil {
		return fmt.Errorf("a JSON web token could not be decoded")
	}
	now := s.now().Unix()
	switch {
	case claims.Iss != s.AppID:
		return fmt.Errorf("'Issuer' claim ('iss') is not an app that is known")
	case claims.Iat > now:
		return fmt.Errorf("'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued")
	case claims.Exp <= now:
		return fmt.Errorf("'Expiration time' claim ('exp') is in the past")
	case claims.Exp-claims.Iat > 600:
		return fmt.Errorf("'Expiration time' claim ('exp') is too far in the future")
	}
	return nil
}

func answer(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
