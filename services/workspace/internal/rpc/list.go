package rpc

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	pb "magosproject.io/gen/magos/workspace/v1alpha1"
	"magosproject.io/internal/rpcerr"
)

const maxPage = 500

// ListWorkspaces shows a page of Workspaces by namespace and name. The page token names the last one shown, so that
// Workspaces that come and go between two pages neither repeat nor hide others.
func (s *Service) ListWorkspaces(ctx context.Context, request *pb.ListWorkspacesRequest) (*pb.ListWorkspacesResponse, error) {
	size := int(request.GetPageSize())
	if size < 0 || size > maxPage {
		return nil, rpcerr.Invalid("page_size", fmt.Sprintf("send 1 to %d, or 0 for %d", maxPage, maxPage))
	}
	if size == 0 {
		size = maxPage
	}
	after, err := readToken(request.GetPageToken())
	if err != nil {
		return nil, err
	}
	var all v1alpha1.WorkspaceList
	// The cache keeps its objects: they are only looked at here.
	if err := s.config.Cache.List(ctx, &all, client.InNamespace(request.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Workspaces: %w", err)
	}
	page := make([]*v1alpha1.Workspace, 0, len(all.Items))
	for i := range all.Items {
		w := &all.Items[i]
		if isOf(w, request.GetProject()) && position(w) > after {
			page = append(page, w)
		}
	}
	slices.SortFunc(page, func(a, b *v1alpha1.Workspace) int { return strings.Compare(position(a), position(b)) })
	response := &pb.ListWorkspacesResponse{}
	if len(page) > size {
		page = page[:size]
		response.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(position(page[size-1])))
	}
	for _, w := range page {
		response.Workspaces = append(response.Workspaces, render(w))
	}
	return response, nil
}

// position orders by namespace, then name: no character of either sorts before the separator.
func position(w *v1alpha1.Workspace) string { return w.Namespace + "\x00" + w.Name }

func readToken(token string) (after string, err error) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || token != "" && !strings.Contains(string(text), "\x00") {
		return "", rpcerr.Invalid("page_token", "send the next_page_token of the page before, unchanged")
	}
	return string(text), nil
}

func isOf(w *v1alpha1.Workspace, project string) bool {
	return project == "" || w.Spec.ProjectRef.Name == project
}
