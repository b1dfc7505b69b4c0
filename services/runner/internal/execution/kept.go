package execution

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// requestKey is the key of the request in the ConfigMap of a plan. No container sees it: it is there for a destroy, which uses
// what was applied last, whatever has become of Project, VariableSets and spec by then.
const requestKey = "request.json"

// keep renders the request without its literals, which have keys of their own.
func keep(r Request) (string, error) {
	r.Variables = slices.Clone(r.Variables)
	for i := range r.Variables {
		r.Variables[i].Value = nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("rendering the request: %w", err)
	}
	return string(text), nil
}

// KeptRequest is the request that the ConfigMap of the plan key was made for; ok is false where it does not hold one, such as one
// of a release that kept none.
func KeptRequest(config *corev1.ConfigMap, key Key) (r Request, ok bool, err error) {
	text, ok := config.Data[requestKey]
	if !ok {
		return Request{}, false, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Request{}, false, fmt.Errorf("reading the request in configmap %s/%s: %w", config.Namespace, config.Name, err)
	}
	if r.Key != key {
		return Request{}, false, nil
	}
	for i := range r.Variables {
		v := &r.Variables[i]
		if v.Secret != nil || v.ConfigMap != nil {
			continue
		}
		value, ok := config.Data[literalPrefix+strconv.Itoa(i)]
		if !ok {
			return Request{}, false, fmt.Errorf("reading the request in configmap %s/%s: the value of variable %s is missing", config.Namespace, config.Name, v.Name)
		}
		v.Value = &value
	}
	// The name has the digest of the request, so that nobody passes another for it.
	digest, err := r.Digest()
	if err != nil {
		return Request{}, false, err
	}
	return r, config.Name == ConfigMapName(r.RunID, r.Phase, digest, config.Data), nil
}
