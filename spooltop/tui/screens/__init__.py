"""The screens. They keep the choices of the user; ``draw`` draws them, and ``commands`` gives keys their meaning."""
