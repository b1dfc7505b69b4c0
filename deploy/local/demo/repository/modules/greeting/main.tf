terraform {
  required_providers {
    time = {
      source  = "hashicorp/time"
      version = "0.14.2"
    }
  }
}

variable "environment" {
  type        = string
  description = "Name of the environment that is greeted."
}

variable "owner" {
  type        = string
  description = "Who looks after it."
}

locals {
  text = "${trimspace(file("${path.module}/message.txt"))}, ${var.environment} (looked after by ${var.owner})"
}

resource "terraform_data" "greeting" {
  input = local.text
}

# When the present text was first applied here.
resource "time_static" "since" {
  triggers = {
    text = local.text
  }
}

output "greeting" {
  description = "The text and when it came into force."
  value       = "${terraform_data.greeting.output}, since ${time_static.since.rfc3339}"
}
