package rpcclient

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The parts of gRPC's service config that are used here.
type (
	serviceConfig struct {
		MethodConfig []methodConfig `json:"methodConfig,omitempty"`
	}
	methodConfig struct {
		Name        []methodName `json:"name"`
		RetryPolicy policy       `json:"retryPolicy"`
	}
	methodName struct {
		Service string `json:"service"`
		Method  string `json:"method"`
	}
	policy struct {
		MaxAttempts          int      `json:"maxAttempts"`
		InitialBackoff       string   `json:"initialBackoff"`
		MaxBackoff           string   `json:"maxBackoff"`
		BackoffMultiplier    float64  `json:"backoffMultiplier"`
		RetryableStatusCodes []string `json:"retryableStatusCodes"`
	}
)

// retryPolicy sends the named methods up to three times. No other method is ever sent twice once a server may have seen it.
func retryPolicy(idempotent []string) (string, error) {
	config := serviceConfig{}
	for _, method := range slices.Sorted(slices.Values(idempotent)) {
		service, name, found := strings.Cut(strings.TrimPrefix(method, "/"), "/")
		if !found || service == "" || name == "" {
			return "", fmt.Errorf("%q is no full name of a method", method)
		}
		config.MethodConfig = append(config.MethodConfig, methodConfig{
			Name: []methodName{{Service: service, Method: name}},
			RetryPolicy: policy{
				MaxAttempts: 3, InitialBackoff: "0.1s", MaxBackoff: "1s", BackoffMultiplier: 3,
				RetryableStatusCodes: []string{"UNAVAILABLE"},
			},
		})
	}
	encoded, err := json.Marshal(config)
	return string(encoded), err
}
