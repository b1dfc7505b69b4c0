package rpc

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"magosproject.io/api/v1alpha1"
	pb "magosproject.io/gen/magos/workspace/v1alpha1"
	"magosproject.io/services/workspace/internal/inputs"
)

// ResolveVariables tells where the variables of a Workspace come from, without a value.
func (s *Service) ResolveVariables(ctx context.Context, request *pb.ResolveVariablesRequest) (*pb.ResolveVariablesResponse, error) {
	w, err := read(ctx, s.config.Cache, request.GetWorkspace())
	if err != nil {
		return nil, err
	}
	response := &pb.ResolveVariablesResponse{TfvarsPath: w.Spec.Terraform.TfvarsPath}
	key := types.NamespacedName{Namespace: w.Namespace, Name: w.Spec.ProjectRef.Name}
	project := &v1alpha1.Project{}
	if err := s.config.Cache.Get(ctx, key, project); apierrors.IsNotFound(err) {
		project, response.ProjectMissing = nil, true
	} else if err != nil {
		return nil, fmt.Errorf("reading Project %s: %w", key, err)
	}
	composition, objects, err := s.config.Variables.Of(ctx, project, w)
	if err != nil {
		return nil, err
	}
	response.MissingVariableSets = composition.Missing
	unresolved := map[string]string{}
	for _, u := range composition.Inputs(w, objects).Unresolved {
		unresolved[u.Variable] = u.Reason
	}
	for _, winner := range composition.Winners {
		name := winner.Variable.Name
		variable := &pb.ResolvedVariable{
			Name: name, Source: renderSource(winner.Source), HasValue: winner.HasValue(objects), UnresolvedReason: unresolved[name],
		}
		for _, source := range winner.Shadows {
			variable.Shadows = append(variable.Shadows, renderSource(source))
		}
		response.Variables = append(response.Variables, variable)
	}
	return response, nil
}

// renderSource shows where a value is. A literal is public, and yet it stays where it is: whoever may read it can.
func renderSource(source inputs.Source) *pb.VariableSource {
	message := &pb.VariableSource{VariableSet: source.Set, NamedBy: "Workspace", Kind: inputs.KindLiteral}
	if source.OfProject {
		message.NamedBy = "Project"
	}
	if ref, key, isReference := inputs.ReferenceOf(source.Variable); isReference {
		message.Kind, message.Object, message.Key, message.Optional = ref.Kind, ref.Name, key.Key, key.Optional
	}
	return message
}
