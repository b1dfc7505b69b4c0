package rpcserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

const reflectionPrefix = "grpc.reflection."

// access is what a method asks for before its handler is called.
type access int

const (
	// byRule: a token, and the right that the Rule names.
	byRule access = iota
	// byToken: a token of the service's audience is enough.
	byToken
	// open: for everybody.
	open
)

// accessOf knows the methods that are not ours.
func accessOf(fullMethod string) access {
	service := strings.TrimPrefix(fullMethod, "/")
	switch {
	case strings.HasPrefix(service, healthv1.Health_ServiceDesc.ServiceName+"/"):
		return open
	case strings.HasPrefix(service, reflectionPrefix):
		return byToken
	default:
		return byRule
	}
}

// CheckRules compares the rules with the registered methods, both ways, and each rule with itself.
func (s *Server) CheckRules() error {
	var errs []error
	registered := map[string]grpc.MethodInfo{}
	for service, info := range s.grpc.GetServiceInfo() {
		for _, method := range info.Methods {
			name := "/" + service + "/" + method.Name
			if accessOf(name) == byRule {
				registered[name] = method
			}
		}
	}
	for name := range registered {
		if _, found := s.config.Rules[name]; !found {
			errs = append(errs, fmt.Errorf("method %s has no rule", name))
		}
	}
	for name, rule := range s.config.Rules {
		method, found := registered[name]
		switch {
		case !found:
			errs = append(errs, fmt.Errorf("the rule for %s has no method", name))
		case rule.Verb == "" || rule.Resource == "":
			errs = append(errs, fmt.Errorf("the rule for %s lacks a verb or a resource", name))
		case rule.Deadline != 0 && (method.IsServerStream || method.IsClientStream):
			errs = append(errs, fmt.Errorf("the rule for the stream %s has a deadline", name))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("checking the rules of the gRPC server: %w", err)
	}
	return nil
}
