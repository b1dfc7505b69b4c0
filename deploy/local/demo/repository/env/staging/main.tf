terraform {
  # The state lies in a Secret beside the Workspace.
  backend "kubernetes" {
    secret_suffix     = "staging"
    namespace         = "magos-demo"
    in_cluster_config = true
  }
}

# Given by the VariableSet demo.
variable "owner" {
  type = string
}

module "greeting" {
  source      = "../../modules/greeting"
  environment = "staging"
  owner       = var.owner
}

output "greeting" {
  value = module.greeting.greeting
}
