"""Services: their replicas are checked, begun again, replaced and retired by the dispatcher."""
