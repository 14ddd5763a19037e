"""The admin's pages: encrypted columns are searched whole."""

from django.contrib import admin

from .models import Author, Book


@admin.register(Author)
class AuthorAdmin(admin.ModelAdmin):
    list_display = ["name", "born", "active"]
    list_filter = ["active"]
    search_fields = ["name__exact"]
    ordering = ["name"]


@admin.register(Book)
class BookAdmin(admin.ModelAdmin):
    list_display = ["title", "author", "price", "stock"]
    search_fields = ["title__exact"]
    ordering = ["title"]
